package durablestreams

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certificateCheck is how often the files of a certificate are looked at while
// there are handshakes.
const certificateCheck = time.Second

// certificate is a TLS certificate that follows its files: whoever renews it only
// writes them. A pair that does not load, such as one of which half is written,
// leaves the old one in use.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	pair atomic.Pointer[tls.Certificate]
	next atomic.Int64 // when the files are looked at again

	mu     sync.Mutex
	loaded pairState // of pair
	failed pairState // what did not load, and has been told
}

// pairState tells versions of two files apart.
type pairState [2]struct {
	modified time.Time
	size     int64
}

// openCertificate loads a pair of PEM files.
func openCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	pair, state, err := c.load()
	if err != nil {
		return nil, err
	}
	c.use(pair, state)
	return c, nil
}

// load reads the files. The state is that of before: a change meanwhile is seen
// the next time.
func (c *certificate) load() (*tls.Certificate, pairState, error) {
	state, err := c.state()
	if err != nil {
		return nil, state, fmt.Errorf("TLS certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, state, fmt.Errorf("TLS certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	return &pair, state, nil
}

func (c *certificate) state() (state pairState, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return state, err
		}
		state[i].modified, state[i].size = info.ModTime(), info.Size()
	}
	return state, nil
}

// use takes a pair that has been loaded.
func (c *certificate) use(pair *tls.Certificate, state pairState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair.Store(pair)
	c.loaded, c.failed = state, state
}

// get is tls.Config's GetCertificate. It looks at the files now and then.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := time.Now()
	if due := c.next.Load(); now.UnixNano() >= due && c.next.CompareAndSwap(due, now.Add(certificateCheck).UnixNano()) {
		_ = c.follow() // which has told
	}
	return c.pair.Load(), nil
}

// follow loads the files if they have changed. What does not load is told once.
func (c *certificate) follow() error {
	state, err := c.state()
	c.mu.Lock()
	same, told := err == nil && state == c.loaded, state == c.failed
	c.mu.Unlock()
	if same {
		return nil
	}
	pair, state, err := c.load()
	if err == nil {
		c.use(pair, state)
		c.log.Info("TLS certificate replaced", "file", c.certFile, "expires", pair.Leaf.NotAfter)
		return nil
	}
	if !told {
		c.log.Warn("new TLS certificate does not load, the old one stays in use", "err", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = state
	return err
}
