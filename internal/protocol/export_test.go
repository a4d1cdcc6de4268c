package protocol

// Clip makes text of clients fit for a log.
func Clip(s string, most int) string { return clip(s, most) }
