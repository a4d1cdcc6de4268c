package backup

// Encode gives a manifest's bytes.
func (m *Manifest) Encode() ([]byte, error) { return m.encode() }
