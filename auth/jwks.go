package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// An issuer replaces its keys from time to time. They are fetched again when a token
// names one that is not there, and when they have grown old; never more often than
// refetchPause, however many tokens ask for it.
const (
	refetchPause = 10 * time.Second
	retryPause   = time.Second // while there are none at all
	refreshAfter = 10 * time.Minute
	fetchTimeout = 10 * time.Second
	maxKeySet    = 1 << 20 // bytes
	maxKeys      = 1000
)

// keySet is a JWK Set with its usable keys. It never changes.
type keySet struct {
	text []byte
	keys []jose.JSONWebKey
}

// parseKeySet takes the public keys that may verify tokens and passes over those of
// other kinds.
func parseKeySet(text []byte) (*keySet, error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("not a JWK Set: %w", err)
	}
	if len(raw.Keys) > maxKeys {
		return nil, fmt.Errorf("a JWK Set with more than %d keys", maxKeys)
	}
	set := &keySet{text: text}
	for _, r := range raw.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(r) == nil && usable(key) {
			set.keys = append(set.keys, key)
		}
	}
	if len(set.keys) == 0 {
		return nil, errors.New("a JWK Set without a public key for RS256, PS256, ES256 or EdDSA")
	}
	return set, nil
}

// named gives the keys with an id. A token that names none means the only one.
func (s *keySet) named(kid string) (keys []jose.JSONWebKey) {
	if kid == "" && len(s.keys) == 1 {
		return s.keys
	}
	for _, k := range s.keys {
		if kid != "" && k.KeyID == kid {
			keys = append(keys, k)
		}
	}
	return keys
}

// keySource has the keys of an issuer.
type keySource struct {
	from   string
	client *http.Client
	log    *slog.Logger
	set    atomic.Pointer[keySet] // nil: none yet
	old    atomic.Int64           // when to fetch it again, in Unix nanoseconds

	mu       sync.Mutex
	fetching chan struct{} // closed when the fetch under way is over; nil: none is
	next     time.Time     // before it, none begins
}

func isURL(from string) bool { return strings.Contains(from, "://") }

// validSource checks where keys are to come from. Whoever could change them on their
// way would be let in as anybody.
func validSource(from string) error {
	if from == "" {
		return errors.New("no place of the issuer's keys given")
	}
	if !isURL(from) {
		return nil
	}
	u, err := url.Parse(from)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the issuer's keys are at an https URL or in a file")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("the issuer's keys are at an https URL: http is for this machine only")
	}
	return nil
}

func newKeySource(from string, client *http.Client, log *slog.Logger) *keySource {
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects, which is not followed")
		}}
	}
	return &keySource{from: from, client: client, log: log}
}

// current gives the keys of now, nil if there are none yet, and has old ones fetched
// again.
func (s *keySource) current() *keySet {
	set := s.set.Load()
	if set != nil && time.Now().UnixNano() > s.old.Load() {
		s.begin()
	}
	return set
}

// reload reads a file of keys at once, and begins to fetch others.
func (s *keySource) reload() error {
	if isURL(s.from) {
		s.mu.Lock()
		s.next = time.Time{}
		s.mu.Unlock()
		s.begin()
		return nil
	}
	set, err := s.load()
	if err != nil {
		return fmt.Errorf("the keys of the token issuer: %w", err)
	}
	s.take(set)
	return nil
}

// find gives the keys with an id, and the set that they are of. It waits for a fetch
// if there are none, and may be refused.
func (s *keySource) find(kid string) (*keySet, []jose.JSONWebKey, error) {
	for range 2 {
		set := s.current()
		if set != nil {
			if keys := set.named(kid); len(keys) > 0 {
				return set, keys, nil
			}
		}
		fetched := s.begin()
		if fetched == nil {
			break
		}
		<-fetched
	}
	set := s.set.Load()
	if set == nil {
		return nil, nil, errNoKeys
	}
	if keys := set.named(kid); len(keys) > 0 {
		return set, keys, nil
	}
	return nil, nil, errNotSigned
}

// begin starts a fetch, unless one is under way, and gives what is closed at its end;
// nil if it is too early for another one.
func (s *keySource) begin() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetching != nil {
		return s.fetching
	}
	if time.Now().Before(s.next) {
		return nil
	}
	s.fetching = make(chan struct{})
	go s.fetch(s.fetching)
	return s.fetching
}

func (s *keySource) fetch(done chan struct{}) {
	set, err := s.load()
	pause := refetchPause
	if err == nil {
		s.take(set)
	} else {
		s.log.Warn("the keys of the token issuer cannot be had", "err", err)
		if s.set.Load() == nil {
			pause = retryPause
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = time.Now().Add(pause)
	s.old.Store(time.Now().Add(refreshAfter).UnixNano())
	s.fetching = nil
	close(done)
}

// take uses a set from now on, if it is another one.
func (s *keySource) take(set *keySet) {
	s.old.Store(time.Now().Add(refreshAfter).UnixNano())
	if now := s.set.Load(); now == nil || !bytes.Equal(now.text, set.text) {
		s.set.Store(set)
	}
}

func (s *keySource) load() (*keySet, error) {
	read := s.get
	if !isURL(s.from) {
		read = s.readFile
	}
	text, err := read()
	if err != nil {
		return nil, err
	}
	return parseKeySet(text)
}

func (s *keySource) readFile() ([]byte, error) {
	f, err := os.Open(s.from)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeySet))
	return text, errors.Join(err, f.Close())
}

func (s *keySource) get() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet))
	err = errors.Join(err, res.Body.Close())
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %d", res.StatusCode)
	}
	return text, err
}
