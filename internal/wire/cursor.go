package wire

import (
	"strconv"
	"time"
)

const (
	cursorEpoch    = 1728432000 // 2024-10-09T00:00:00Z in Unix seconds
	cursorInterval = 20         // seconds

	// maxCursorStep is the largest step ahead of a client's cursor, in intervals:
	// the protocol's 3600 seconds.
	maxCursorStep = 3600 / cursorInterval

	// maxClientCursor leaves room for a step below the bound that JavaScript and
	// every int64 hold exactly.
	maxClientCursor = MaxSafeInteger - maxCursorStep
)

// NextCursor returns the cursor of a live answer given at now to a client that sent
// the cursor client, "" if none (§10.1). It is the number of 20 second intervals
// since 2024-10-09T00:00:00Z, the same for everybody, unless the client is already
// there or ahead: then it is the client's cursor plus 1 to 180 intervals, which is
// the protocol's jitter of up to 3600 seconds.
//
// jitter(n) picks that step as a number below n; nil takes the smallest step. A
// client cursor that no server of this protocol minted counts as absent: anything but
// plain digits, and numbers within a step of 2^53. So the result never wraps and
// is never above MaxSafeInteger, always in plain decimal.
func NextCursor(now time.Time, client string, jitter func(n uint64) uint64) string {
	current := uint64(max(0, now.Unix()-cursorEpoch)) / cursorInterval
	next := current
	if c, ok := ParseDigits(client, maxClientCursor); ok && c >= current {
		next = c + 1
		if jitter != nil {
			next += jitter(maxCursorStep) % maxCursorStep
		}
	}
	return strconv.FormatUint(next, 10)
}
