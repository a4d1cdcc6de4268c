package bench

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"time"
)

// bed is one run's place: the server, the names, the clock.
type bed struct {
	opts  Options
	url   string
	pid   int
	plain bool   // the URL is a file
	addr  string // IP address and port
	host  string // for the Host field
	path  string // of the stream root
	run   string
	clock time.Time
}

// newBed resolves the server's address and picks a name for the run.
func newBed(ctx context.Context, opts Options, rawURL string, pid int) (*bed, error) {
	host, path, err := splitURL(rawURL)
	if err != nil {
		return nil, err
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return nil, fmt.Errorf("URL %q: %w", rawURL, err)
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("URL %q: %w", rawURL, err)
	}
	return &bed{
		opts: opts, url: rawURL, pid: pid, host: host, path: path,
		addr: net.JoinHostPort(ips[0].IP.String(), port),
		run:  newRunID(), clock: time.Now(),
	}, nil
}

// newRunID gives a name that no other run has.
func newRunID() string {
	var random [8]byte
	rand.Read(random[:])
	n := binary.LittleEndian.Uint64(random[:])
	id := make([]byte, runLength)
	for i := range id {
		id[i] = "abcdefghijklmnopqrstuvwxyz234567"[n&31]
		n >>= 5
	}
	return string(id)
}

// appendPath writes a stream's path. Names are of one length, so that requests are.
func (b *bed) appendPath(buf []byte, g string, stream int) []byte {
	buf = append(buf, b.path...)
	buf = append(buf, "/bench-"...)
	buf = append(buf, b.run...)
	buf = append(buf, '/')
	buf = append(buf, g...)
	buf = append(buf, '-')
	return appendHex(buf, uint64(stream), 6)
}

// fixed gives the unchanging lines of a request's head: Host and more, the empty line
// included if it ends the head.
func (b *bed) fixed(lines ...string) string {
	return " HTTP/1.1\r\nHost: " + b.host + "\r\n" + strings.Join(lines, "")
}

// spread deals tasks to the loops, one after the other.
func (b *bed) spread(n int, of func(i, loop int) task) [][]task {
	groups := make([][]task, b.opts.Loops)
	for i := range n {
		loop := i % b.opts.Loops
		groups[loop] = append(groups[loop], of(i, loop))
	}
	return groups
}

func (b *bed) tallies() []*tally {
	t := make([]*tally, b.opts.Loops)
	for i := range t {
		t[i] = &tally{}
	}
	return t
}
