package webhook

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lookEvery is how long a server may go on with keys that have been replaced.
const lookEvery = time.Second

// Keys are the secrets of a server: the key that signs deliveries and the one that
// makes tokens. They are kept in one file and made when they are needed for the first
// time. A file that another process replaces ([Rotate]) is noticed within a second of
// use. If it then cannot be read, that is logged and the keys stay as they were: what
// they sign can still be verified. Keys may be used from many goroutines; a call may
// read the file, the first one ever writes it.
type Keys struct {
	file keyFile
	log  *slog.Logger

	mu     sync.Mutex
	set    *keySet // nil: none have been made yet
	text   []byte  // of the file that set was read from
	looked time.Time
	fault  string // what has been logged about the file
}

// OpenKeys reads the keys in the file at path. No file is no error; one that cannot
// be read is, and is never replaced by new keys. log may be nil.
func OpenKeys(fs vfs.FS, path string, log *slog.Logger) (*Keys, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	k := &Keys{file: keyFile{fs, path}, log: log}
	set, text, err := k.file.load()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return k, nil
	case err != nil:
		return nil, fmt.Errorf("open the webhook keys: %w", err)
	}
	k.set, k.text = set, text
	return k, nil
}

// Rotate replaces the keys in the file at path, which must exist; a server may be
// using it. The new signing key is published at once and signs when wait is over, which
// should be [Announce]; with none it signs at once, and receivers that have kept the
// key set refuse its signatures until they fetch the set again. The old public key stays
// in the JWK Set for [KeepPublished] after its last use. Tokens are made with a new
// secret at once; the old one only verifies, for [KeepTokens]. The result is the new
// signing key's id.
func Rotate(fs vfs.FS, path string, now time.Time, wait time.Duration) (kid string, err error) {
	file := keyFile{fs, path}
	if _, err := file.read(); err != nil { // before a folder is made in a wrong place
		return "", fmt.Errorf("replace the webhook keys: %w", err)
	}
	err = file.locked(func() error {
		old, _, err := file.load()
		if err != nil {
			return err
		}
		made, id, err := old.replace(now, wait)
		if err != nil {
			return err
		}
		kid = id
		return file.write(made.encode())
	})
	if err != nil {
		return "", fmt.Errorf("replace the webhook keys: %w", err)
	}
	return kid, nil
}

// current gives the keys to use now.
func (k *Keys) current(now time.Time) (*keySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil {
		return k.create(now)
	}
	if age := now.Sub(k.looked); age < 0 || age >= lookEvery {
		k.looked = now
		k.look()
	}
	if set := k.set.at(now); set != k.set {
		k.set = set
		k.log.Info("the next webhook key signs now", "kid", set.kid)
	}
	return k.set, nil
}

// look takes over the file's content if it has changed.
func (k *Keys) look() {
	text, err := k.file.read()
	if err == nil && bytes.Equal(text, k.text) {
		k.fault = ""
		return
	}
	var set *keySet
	if err == nil {
		set, text, err = k.file.load()
	}
	if err != nil {
		if k.fault != err.Error() {
			k.fault = err.Error()
			k.log.Error("the webhook keys cannot be read any more; the ones in memory are used until the server stops", "err", err)
		}
		return
	}
	k.set, k.text, k.fault = set, text, ""
	log := k.log.With("kid", set.kid)
	if set.next != nil {
		log = log.With("next", keyID(public(set.next.signing)), "from", time.Unix(set.next.from, 0).UTC().Format(time.RFC3339))
	}
	log.Info("the webhook keys have been replaced")
}

// create makes the first keys, unless another process was faster.
func (k *Keys) create(now time.Time) (*keySet, error) {
	err := k.file.locked(func() error {
		set, text, err := k.file.load()
		if errors.Is(err, os.ErrNotExist) {
			if set, err = newKeySet(); err != nil {
				return err
			}
			text = set.encode()
			err = k.file.write(text)
		}
		if err != nil {
			return err
		}
		k.set, k.text, k.looked = set, text, now
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make the webhook keys: %w", err)
	}
	k.log.Info("the webhook keys have been made", "kid", k.set.kid, "file", k.file.path)
	return k.set, nil
}

// KeyID is the id of the key that signs now.
func (k *Keys) KeyID(now time.Time) (string, error) {
	set, err := k.current(now)
	if err != nil {
		return "", err
	}
	return set.kid, nil
}

// Sign gives the value of the Webhook-Signature header for a body that is sent now
// (§7.1): the signature is over the time, a dot and the body.
func (k *Keys) Sign(body []byte, now time.Time) (string, error) {
	set, err := k.current(now)
	if err != nil {
		return "", err
	}
	t := strconv.FormatInt(now.Unix(), 10)
	signature := ed25519.Sign(set.signing, append([]byte(t+"."), body...))
	return "t=" + t + ",kid=" + set.kid + ",ed25519=" + encode64(signature), nil
}

// jwk is a public key as RFC 8037 and §6.5 write it.
type jwk struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	X         string `json:"x"`
}

// JWKS gives the JWK Set (§6.5): the key that signs now, the one that will, and those
// that did lately.
func (k *Keys) JWKS(now time.Time) ([]byte, error) {
	set, err := k.current(now)
	if err != nil {
		return nil, err
	}
	doc := struct {
		Keys []jwk `json:"keys"`
	}{Keys: []jwk{jwkOf(public(set.signing))}}
	if set.next != nil {
		doc.Keys = append(doc.Keys, jwkOf(public(set.next.signing)))
	}
	for _, old := range set.published(now) {
		doc.Keys = append(doc.Keys, jwkOf(old.public))
	}
	return json.Marshal(doc)
}

func jwkOf(key ed25519.PublicKey) jwk {
	return jwk{KeyType: "OKP", Curve: "Ed25519", ID: keyID(key), Use: "sig", Algorithm: "EdDSA", X: encode64(key)}
}

// keyID is the thumbprint of a key (RFC 7638, for this type of key RFC 8037): a hash of
// its required members in this very order and form.
func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + encode64(key) + `"}`))
	return "ds_" + encode64(sum[:])
}
