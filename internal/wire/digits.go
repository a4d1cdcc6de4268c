package wire

// MaxSafeInteger is 2^53-1, the largest integer that JavaScript holds exactly and
// the largest producer epoch and sequence number (§5.2.1).
const MaxSafeInteger = 1<<53 - 1

// ParseDigits reads s as a decimal number of at most max. It takes only digits
// without a leading zero, except for "0" itself: no sign, space, point, exponent
// or underscore. It is the grammar of Stream-TTL and Stream-Fork-Sub-Offset (§5.1,
// §4.2). It reports false for everything else, numbers beyond max included.
func ParseDigits(s string, max uint64) (uint64, bool) {
	if len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	return ParsePaddedDigits(s, max)
}

// ParsePaddedDigits is ParseDigits with leading zeros allowed. Producer-Epoch and
// Producer-Seq are read with it (§5.2.1): the protocol asks for digits there and
// does not forbid padding.
func ParsePaddedDigits(s string, max uint64) (uint64, bool) {
	if s == "" {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		d := uint64(s[i] - '0')
		// n*10 + d > max, put so that nothing can overflow.
		if d > max || n > (max-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

func isDigit(c byte) bool { return c-'0' <= 9 }
