package webhook

import (
	"context"
	"crypto/ed25519"
	"net"
	"net/http"
	"net/netip"
)

// KeyIDOf gives the id of a public key.
func KeyIDOf(key ed25519.PublicKey) string { return keyID(key) }

// RecodeKeys reads the text of a key file and writes it again.
func RecodeKeys(text []byte) ([]byte, error) {
	set, err := decodeKeys(text)
	if err != nil {
		return nil, err
	}
	return set.encode(), nil
}

// CheckAddr tells why a connection to an address is refused.
func (p *Policy) CheckAddr(host, addr string) string {
	return p.checkAddr(host, netip.MustParseAddr(addr))
}

// SetDial replaces the way to receivers, the guard included.
func (s *Sender) SetDial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	s.pool.DialContext = dial
}

// Transport is what requests go through.
func (s *Sender) Transport() *http.Transport { return s.pool }

// Hosts is the number of hosts that the limiter remembers.
func (s *Sender) Hosts() int {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	return len(s.limits.hosts)
}
