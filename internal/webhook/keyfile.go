package webhook

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/format"
)

// How long before its use a new key is published, and how long a replaced one is kept
// for those who hold something that it signed.
const (
	// Announce is for how long a new public key stands in the JWK Set before it signs.
	// Receivers may keep the set for five minutes (§6.5), and caches between may do so
	// as well: whoever asks again because of an unknown key could get the old set.
	Announce = 10 * time.Minute
	// KeepPublished is for how long a replaced public key stays in the JWK Set. It
	// covers the second in which a server may not have noticed the new key, and three
	// times the replay window that receivers should have (§7.1: five minutes).
	KeepPublished = 15 * time.Minute
	// KeepTokens is for how long tokens of a replaced secret are still taken, and
	// with that the longest life of a token that does not end early by a rotation.
	KeepTokens = 24 * time.Hour
)

// Failures of a key file that only a person can put right.
var (
	ErrKeysDamaged = errors.New("the key file is damaged: restore it, or remove it so that new keys are made, which receivers then have to fetch")
	ErrKeysVersion = errors.New("the key file was written by another version of the server")
)

const (
	keyFileHead = "ds webhook keys "
	keyVersion  = "1"
	maxKeyFile  = 64 << 10
	maxRetired  = 64
	secretSize  = 32
)

// keySet is the content of a key file. It is never changed once it is in use.
type keySet struct {
	signing ed25519.PrivateKey
	kid     string
	secret  []byte // of tokens
	next    *nextKey
	retired []retiredKey
	tokens  []retiredSecret
}

// nextKey is published and takes over when its time comes, in Unix seconds.
type nextKey struct {
	signing ed25519.PrivateKey
	from    int64
}

// retiredKey is a public key that is published until its time comes, in Unix seconds.
type retiredKey struct {
	public ed25519.PublicKey
	until  int64
}

// retiredSecret still verifies tokens, but signs none.
type retiredSecret struct {
	secret []byte
	until  int64
}

func newKeySet() (*keySet, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	secret := make([]byte, secretSize)
	rand.Read(secret) // never fails (crypto/rand)
	return &keySet{signing: private, kid: keyID(public(private)), secret: secret}, nil
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// at gives the set as it is at a moment: with the next key in use if its time has come.
func (s *keySet) at(now time.Time) *keySet {
	if s.next == nil || s.next.from > now.Unix() {
		return s
	}
	taken := *s
	taken.signing, taken.kid, taken.next = s.next.signing, keyID(public(s.next.signing)), nil
	taken.retired = append(slices.Clone(s.retired), retire(s.signing, time.Unix(s.next.from, 0)))
	return &taken
}

// retire gives what is left of a key that does not sign any more.
func retire(key ed25519.PrivateKey, since time.Time) retiredKey {
	return retiredKey{public(key), since.Add(KeepPublished).Unix()}
}

// replace makes a set of new keys that remembers of the old ones what others may
// still need. The new signing key takes over after a wait; without one the old key is
// gone at once. One that was waiting itself has signed nothing, and nobody needs it.
func (s *keySet) replace(now time.Time, wait time.Duration) (made *keySet, kid string, err error) {
	old := s.at(now)
	made, err = newKeySet()
	if err != nil {
		return nil, "", err
	}
	kid = made.kid
	made.retired = old.published(now)
	made.tokens = append(old.oldSecrets(now), retiredSecret{old.secret, now.Add(KeepTokens).Unix()})
	if wait > 0 {
		made.next = &nextKey{made.signing, now.Add(wait).Unix()}
		made.signing, made.kid = old.signing, old.kid
	} else {
		made.retired = append(made.retired, retire(old.signing, now))
	}
	if len(made.retired)+len(made.tokens) > maxRetired {
		return nil, "", fmt.Errorf("the keys have been replaced too often: at most %d times within %v", maxRetired/2, KeepTokens)
	}
	return made, kid, nil
}

// published gives the replaced keys that are still in the JWK Set.
func (s *keySet) published(now time.Time) []retiredKey {
	return slices.DeleteFunc(slices.Clone(s.retired), func(k retiredKey) bool { return k.until <= now.Unix() })
}

func (s *keySet) oldSecrets(now time.Time) []retiredSecret {
	return slices.DeleteFunc(slices.Clone(s.tokens), func(k retiredSecret) bool { return k.until <= now.Unix() })
}

func encode64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// decode64 takes only the one spelling that encode64 gives.
func decode64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // which the decoder passes over
		return nil, base64.CorruptInputError(0)
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// encode gives the text of a key file, as docs/format/keys.md describes it.
func (s *keySet) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s\n", keyFileHead, keyVersion)
	fmt.Fprintf(&b, "sign %s\n", encode64(s.signing.Seed()))
	if s.next != nil {
		fmt.Fprintf(&b, "next %s %d\n", encode64(s.next.signing.Seed()), s.next.from)
	}
	fmt.Fprintf(&b, "token %s\n", encode64(s.secret))
	for _, k := range s.retired {
		fmt.Fprintf(&b, "published %s %d\n", encode64(k.public), k.until)
	}
	for _, k := range s.tokens {
		fmt.Fprintf(&b, "verify %s %d\n", encode64(k.secret), k.until)
	}
	fmt.Fprintf(&b, "sum %s\n", sumOf(b.Bytes()))
	return b.Bytes()
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// decodeKeys reads the text of a key file. Every text that it takes is exactly what
// encode gives for the result.
func decodeKeys(text []byte) (*keySet, error) {
	head, _, _ := strings.Cut(string(text), "\n")
	version, ours := strings.CutPrefix(head, keyFileHead)
	switch {
	case !ours:
		return nil, fmt.Errorf("%w (it does not begin with %q)", ErrKeysDamaged, keyFileHead)
	case version != keyVersion:
		if v, err := strconv.ParseUint(version, 10, 32); err == nil && v > 1 {
			return nil, errors.Join(ErrKeysVersion, &format.VersionError{What: "the key file", Found: v, Known: 1})
		}
		return nil, fmt.Errorf("%w (version %q, this one knows %s)", ErrKeysVersion, version, keyVersion)
	}
	s := new(keySet)
	for i, line := range strings.Split(string(text), "\n")[1:] {
		if err := s.take(strings.Split(line, " ")); err != nil {
			return nil, fmt.Errorf("%w (line %d: %w)", ErrKeysDamaged, i+2, err)
		}
	}
	if s.signing == nil || s.secret == nil || !bytes.Equal(s.encode(), text) {
		return nil, fmt.Errorf("%w (its checksum is wrong, or a line is missing)", ErrKeysDamaged)
	}
	s.kid = keyID(public(s.signing))
	return s, nil
}

// take reads one line. Whether lines are complete, in order and single is seen by
// encoding the result again.
func (s *keySet) take(words []string) error {
	name := words[0]
	if name == "sum" || name == "" {
		return nil
	}
	secret, until, err := keyAndTime(words[1:])
	switch {
	case err != nil:
		return err
	case name == "sign":
		s.signing = ed25519.NewKeyFromSeed(secret)
	case name == "next":
		s.next = &nextKey{ed25519.NewKeyFromSeed(secret), until}
	case name == "token":
		s.secret = secret
	case name == "published":
		s.retired = append(s.retired, retiredKey{secret, until})
	case name == "verify":
		s.tokens = append(s.tokens, retiredSecret{secret, until})
	default:
		return errors.New("unknown")
	}
	return nil
}

func keyAndTime(words []string) (key []byte, until int64, err error) {
	if len(words) == 0 || len(words) > 2 {
		return nil, 0, errors.New("not one or two values")
	}
	key, err = decode64(words[0])
	if err != nil || len(key) != secretSize {
		return nil, 0, errors.New("no key")
	}
	if len(words) == 2 {
		if until, err = strconv.ParseInt(words[1], 10, 64); err != nil {
			return nil, 0, errors.New("no time")
		}
	}
	return key, until, nil
}

// keyFile is where the keys are kept. Changes are made by one process at a time,
// and readers see the old or the new content, never a part.
type keyFile struct {
	fs   vfs.FS
	path string
}

// read gives the content of the file; [os.ErrNotExist] if there is none.
func (f keyFile) read() (text []byte, err error) {
	file, err := f.fs.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.path, err)
	}
	text, err = io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.path, err)
	}
	return text, nil
}

// load gives the keys in the file and its text. Whoever wrote the file may not have
// made its name durable before it died; keys are not used before it is.
func (f keyFile) load() (*keySet, []byte, error) {
	text, err := f.read()
	if err != nil {
		return nil, nil, err
	}
	set, err := decodeKeys(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.path, err)
	}
	if err := f.syncFolder(f.fs.PathDir(f.path)); err != nil {
		return nil, nil, fmt.Errorf("make %s durable: %w", f.path, err)
	}
	return set, text, nil
}

// locked runs change while no other process changes the file.
func (f keyFile) locked(change func() error) (err error) {
	if err := f.makeFolder(); err != nil {
		return fmt.Errorf("make the folder of %s: %w", f.path, err)
	}
	lock, err := f.fs.Lock(f.path + ".lock")
	if err != nil {
		return fmt.Errorf("lock %s (is somebody else changing the keys?): %w", f.path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return change()
}

// makeFolder makes the folder for the owner alone, so that nobody can open a file in
// it before the file's own rights are set.
func (f keyFile) makeFolder() error {
	folder := f.fs.PathDir(f.path)
	if err := f.fs.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return f.syncFolder(f.fs.PathDir(folder))
}

// write replaces the file. The new content is durable when write returns; after a
// crash the file is the old or the new one.
func (f keyFile) write(text []byte) error {
	next := f.path + ".new"
	if err := f.writeNew(next, text); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", next, err), f.discard(next))
	}
	if err := f.fs.Rename(next, f.path); err != nil {
		return errors.Join(fmt.Errorf("replace %s: %w", f.path, err), f.discard(next))
	}
	if err := f.syncFolder(f.fs.PathDir(f.path)); err != nil {
		return fmt.Errorf("make %s durable: %w", f.path, err)
	}
	return nil
}

func (f keyFile) writeNew(name string, text []byte) error {
	file, err := f.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if file.Fd() != vfs.InvalidFd { // a real file: it has rights
		err = os.Chmod(name, 0o600)
	}
	if err == nil {
		_, err = file.Write(slices.Clone(text)) // a vfs may change what it is given
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// discard removes a file that was not needed after all.
func (f keyFile) discard(name string) error {
	if err := f.fs.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (f keyFile) syncFolder(folder string) error {
	dir, err := f.fs.OpenDir(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
