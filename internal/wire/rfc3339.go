package wire

import "time"

// ParseRFC3339 reads s as the date-time of RFC 3339 §5.6, the grammar of
// Stream-Expires-At (§5.1), and returns it in UTC. Letters may be lower-case; a
// fraction may have any number of digits, of which nine count. It reports false for
// everything else, in particular for what time.Parse lets pass: impossible or rolled
// over dates, one-digit hours, commas before fractions, offsets beyond 23:59. Leap
// seconds (":60") are refused, as time.Time cannot hold them, and so are instants
// whose UTC year is not 0000 to 9999, as they could not be written out again.
func ParseRFC3339(s string) (time.Time, bool) {
	const shape = "0000-00-00T00:00:00"
	if !hasShape(s, shape) {
		return time.Time{}, false
	}
	year, month, day := number(s[0:4]), time.Month(number(s[5:7])), number(s[8:10])
	hour, minute, second := number(s[11:13]), number(s[14:16]), number(s[17:19])
	if hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	nanos, rest, ok := cutFraction(s[len(shape):])
	if !ok {
		return time.Time{}, false
	}
	offset, ok := zoneOffset(rest)
	if !ok {
		return time.Time{}, false
	}
	t := time.Date(year, month, day, hour, minute, second, nanos, time.UTC)
	// time.Date puts a day that the month does not have into another month.
	if t.Month() != month {
		return time.Time{}, false
	}
	t = t.Add(-offset)
	if t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}, false
	}
	return t, true
}

// cutFraction splits an optional fraction of a second off the front of s and
// returns it in nanoseconds.
func cutFraction(s string) (nanos int, rest string, ok bool) {
	if s == "" || s[0] != '.' {
		return 0, s, true
	}
	n := 1
	for scale := 100_000_000; n < len(s) && isDigit(s[n]); n++ {
		nanos += int(s[n]-'0') * scale
		scale /= 10
	}
	return nanos, s[n:], n > 1
}

// zoneOffset reads "Z" or an offset such as "+01:30" and returns its distance from UTC.
func zoneOffset(s string) (time.Duration, bool) {
	if s == "Z" || s == "z" {
		return 0, true
	}
	if !hasShape(s, "+00:00") && !hasShape(s, "-00:00") || len(s) != len("+00:00") {
		return 0, false
	}
	hours, minutes := number(s[1:3]), number(s[4:6])
	if hours > 23 || minutes > 59 {
		return 0, false
	}
	d := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if s[0] == '-' {
		d = -d
	}
	return d, true
}

// hasShape reports whether s starts like shape, where '0' stands for any digit, 'T'
// for itself in either case and every other byte for itself.
func hasShape(s, shape string) bool {
	if len(s) < len(shape) {
		return false
	}
	for i := range len(shape) {
		switch c := shape[i]; {
		case c == '0' && isDigit(s[i]), c == s[i], c == 'T' && s[i] == 't':
		default:
			return false
		}
	}
	return true
}

// number returns the value of s, which is all digits and short.
func number(s string) int {
	n := 0
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n
}
