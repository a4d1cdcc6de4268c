package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"durablestreams/internal/format"
	"durablestreams/internal/wire"
	"durablestreams/stream"
)

// A signed URL lets whoever has it read one stream for a short time, where no header
// can be sent: from an EventSource, or a link. Its query has
//
//	signature=SECONDS.MAC
//
// with the Unix time at which it ends, and the HMAC-SHA256 of path and time in
// base64url.

// URLKey signs URLs.
type URLKey [sha256.Size]byte

// NewURLKey makes a key.
func NewURLKey() (k URLKey) {
	rand.Read(k[:]) // never fails (crypto/rand)
	return k
}

const (
	urlKeyName    = "ds key for signed URLs "
	urlKeyVersion = 1
	urlKeyHead    = urlKeyName + "1 "
)

// Text is what a key file has.
func (k *URLKey) Text() []byte { return []byte(urlKeyHead + encode64(k[:]) + "\n") }

// ParseURLKey reads what [URLKey.Text] gives.
func ParseURLKey(text []byte) (k URLKey, err error) {
	rest, ok := strings.CutPrefix(string(text), urlKeyHead)
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimSuffix(rest, "\n"))
	if ok && err == nil && len(b) == len(k) {
		copy(k[:], b)
	}
	if version, ok := strings.CutPrefix(string(text), urlKeyName); ok {
		n, _, _ := strings.Cut(version, " ")
		if v, err := strconv.ParseUint(n, 10, 32); err == nil && v > urlKeyVersion {
			return URLKey{}, &format.VersionError{What: "the key file", Found: v, Known: urlKeyVersion}
		}
	}
	if string(k.Text()) != string(text) {
		return URLKey{}, errors.New("the key file is damaged: remove it, and a new key is made, which ends all signed URLs")
	}
	return k, nil
}

// String keeps the key out of logs.
func (URLKey) String() string { return "a key" }

// GoString does so too.
func (URLKey) GoString() string { return "a key" }

// Param is the name of the query parameter.
const Param = "signature"

// MaxLife is the longest time for which a URL is signed.
const MaxLife = 24 * time.Hour

// maxSeconds is the greatest time that is taken, in Unix seconds: in the year 9999.
const maxSeconds = 253402300799

var (
	errSignature     = refusal(stream.InvalidToken, "the signature of the URL is not one of this server for this path")
	errSignatureOver = refusal(stream.InvalidToken, "the time of the signed URL is over")
	errSignedTwice   = refusal(stream.InvalidParameter, "query parameter signature: given more than once")
)

// Sign gives the query parameter that makes a URL with this path readable until a
// time, which is cut to whole seconds.
func (k *URLKey) Sign(path stream.Path, now, expires time.Time) (param string, err error) {
	switch {
	case !expires.After(now):
		return "", errors.New("sign a URL: its time is over already")
	case expires.Sub(now) > MaxLife:
		return "", fmt.Errorf("sign a URL: at most for %v", MaxLife)
	}
	seconds := expires.Unix()
	return Param + "=" + strconv.FormatInt(seconds, 10) + "." + encode64(k.sum(path, seconds)), nil
}

func encode64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// sum is what proves that the server's key was there. A path has no line ends.
func (k *URLKey) sum(path stream.Path, seconds int64) []byte {
	h := hmac.New(sha256.New, k[:])
	fmt.Fprintf(h, "ds signed URL 1\nread\n%s\n%d", path, seconds)
	return h.Sum(nil)
}

// check verifies the value of the parameter. Of each there is one spelling.
func (k *URLKey) check(text string, path stream.Path, now time.Time) (expires time.Time, err error) {
	digits, mac, _ := strings.Cut(text, ".")
	seconds, ok := wire.ParseDigits(digits, maxSeconds)
	want := encode64(k.sum(path, int64(seconds)))
	if !ok || !hmac.Equal([]byte(mac), []byte(want)) {
		return time.Time{}, errSignature
	}
	expires = time.Unix(int64(seconds), 0)
	if !now.Before(expires) {
		return time.Time{}, errSignatureOver
	}
	return expires, nil
}

// signature finds the parameter in a query as it was sent. Neither its name nor its
// value has bytes that must be encoded, so an encoded one is none.
func signature(query string) (value string, err error) {
	if !strings.Contains(query, Param+"=") {
		return "", nil
	}
	found := false
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		v, ok := strings.CutPrefix(pair, Param+"=")
		switch {
		case !ok:
		case found:
			return "", errSignedTwice
		case v == "":
			return "", errSignature
		default:
			value, found = v, true
		}
	}
	return value, nil
}
