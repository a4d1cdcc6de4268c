package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"durablestreams/stream"
)

// The access file has one line for each key, and lines of what everybody may read:
//
//	key NAME sha256:HEX [expires=TIME] RIGHTS:PATTERN...
//	anonymous read:PATTERN...
//
// Empty lines and those that begin with # do not count. docs/access.md describes it.

// Limits of an access file.
const (
	maxFile = 64 << 20 // bytes
	maxName = 128      // bytes
)

// table is the content of an access file. It never changes.
type table struct {
	keys      map[[sha256.Size]byte]*Caller
	everybody []Grant
}

func readTable(a *Authorizer, path string) (*table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the access file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read the access file: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("the access file %s is larger than 64 MiB", path)
	}
	t, err := parseTable(a, string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return t, nil
}

// parseTable reads the text of an access file. Errors name the line and nothing of
// what stands in it: it could be a secret in the wrong place.
func parseTable(a *Authorizer, text string) (*table, error) {
	t := &table{keys: map[[sha256.Size]byte]*Caller{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := t.add(a, words); err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
	}
	return t, nil
}

func (t *table) add(a *Authorizer, words []string) error {
	switch words[0] {
	case "key":
		return t.addKey(a, words[1:])
	case "anonymous":
		grants, err := parseGrants(words[1:])
		if err != nil {
			return err
		}
		for _, g := range grants {
			if g.rights != stream.MayRead {
				return errors.New("everybody can be allowed to read, and nothing else")
			}
		}
		t.everybody = append(t.everybody, grants...)
		return nil
	}
	return errors.New("a line begins with key or anonymous")
}

func (t *table) addKey(a *Authorizer, words []string) error {
	if len(words) < 3 {
		return errors.New("want: key NAME sha256:HASH RIGHTS:PATTERN, the last as often as needed")
	}
	c := &Caller{auth: a, name: words[0]}
	if err := checkName(c.name); err != nil {
		return err
	}
	var sum [sha256.Size]byte
	digits, ok := strings.CutPrefix(words[1], "sha256:")
	if n, err := hex.Decode(sum[:], []byte(digits[:min(len(digits), 2*len(sum))])); !ok || err != nil || n != len(sum) || len(digits) != 2*len(sum) {
		return errors.New("the second word is sha256: and 64 hexadecimal digits")
	}
	if t.keys[sum] != nil {
		return errors.New("this key stands in an earlier line, too")
	}
	words = words[2:]
	if text, ok := strings.CutPrefix(words[0], expiresWord); ok {
		var err error
		if c.expires, err = time.Parse(time.RFC3339, text); err != nil {
			return errors.New("expires= needs a time such as 2030-01-01T00:00:00Z")
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return errors.New("a key needs rights")
	}
	c.key = &sum
	var err error
	c.grants, err = parseGrants(words)
	t.keys[sum] = c
	return err
}

const expiresWord = "expires="

func checkName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || name[0] == '#' ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Errorf("a name has 1 to %d bytes, without blanks and control characters", maxName)
	}
	return nil
}

// keyPrefix tells API keys from other tokens.
const keyPrefix = "dsk_"

// NewKey makes an API key with these grants, and the line for it in an access file.
// The time may be zero: the key does not expire.
func NewKey(name string, grants []Grant, expires time.Time) (key, line string, err error) {
	if err := checkName(name); err != nil {
		return "", "", err
	}
	if len(grants) == 0 || len(grants) > maxGrants {
		return "", "", fmt.Errorf("a key has 1 to %d grants", maxGrants)
	}
	secret := make([]byte, 32)
	rand.Read(secret) // never fails (crypto/rand)
	key = keyPrefix + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(key))
	words := []string{"key", name, "sha256:" + hex.EncodeToString(sum[:])}
	if !expires.IsZero() {
		words = append(words, expiresWord+expires.UTC().Format(time.RFC3339))
	}
	for _, g := range grants {
		words = append(words, g.String())
	}
	return key, strings.Join(words, " "), nil
}
