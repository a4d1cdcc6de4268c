package webhook_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// names is a resolver that gives what a test wants. It answers like a name server, so
// that production code resolves as it always does.
type names struct {
	mu    sync.Mutex
	addrs map[string][]netip.Addr
}

func (n *names) set(name string, addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.addrs == nil {
		n.addrs = map[string][]netip.Addr{}
	}
	n.addrs[name] = nil
	for _, addr := range addrs {
		n.addrs[name] = append(n.addrs[name], netip.MustParseAddr(addr))
	}
}

func (n *names) resolver(t *testing.T) *net.Resolver {
	var servers sync.WaitGroup
	t.Cleanup(servers.Wait)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		servers.Go(func() {
			defer server.Close()
			for n.answer(server) == nil {
			}
		})
		return client, nil
	}}
}

// answer serves one question of RFC 1035, framed as on TCP.
func (n *names) answer(conn net.Conn) error {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	var labels []string
	at := 12
	for query[at] != 0 {
		labels = append(labels, string(query[at+1:at+1+int(query[at])]))
		at += 1 + int(query[at])
	}
	kind, end := binary.BigEndian.Uint16(query[at+1:]), at+5
	n.mu.Lock()
	addrs, known := n.addrs[strings.ToLower(strings.Join(labels, "."))]
	n.mu.Unlock()

	reply := append([]byte(nil), query[:end]...)
	flags := uint16(0x8180)
	if !known {
		flags |= 3 // no such name
	}
	binary.BigEndian.PutUint16(reply[2:], flags)
	count := uint16(0)
	for _, addr := range addrs {
		if want := map[bool]uint16{true: 1, false: 28}[addr.Is4()]; want != kind {
			continue
		}
		count++
		reply = append(reply, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0)
		reply = binary.BigEndian.AppendUint16(reply, uint16(addr.BitLen()/8))
		reply = append(reply, addr.AsSlice()...)
	}
	binary.BigEndian.PutUint16(reply[6:], count)
	binary.BigEndian.PutUint32(reply[8:], 0) // no further sections
	_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
	return err
}
