package conformance

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// conn is a plain socket to the server, for what no HTTP library would send.
type conn struct {
	c *client
	net.Conn
	r *bufio.Reader
}

// dial opens a socket that closes with the test.
func (c *client) dial() *conn {
	c.Helper()
	nc, err := net.DialTimeout("tcp", c.host, patience)
	if err != nil {
		c.Fatal(err)
	}
	if c.tls {
		config := c.TLS.Clone()
		config.ServerName, _, _ = net.SplitHostPort(c.host)
		nc = tls.Client(nc, config)
	}
	c.Cleanup(func() { nc.Close() })
	return &conn{c: c, Conn: nc, r: bufio.NewReader(nc)}
}

// head writes a request head for a stream. Lines are whole header lines.
func (c *client) rawHead(method, path string, lines ...string) string {
	return c.rawTarget(method, c.full(path), lines...)
}

func (c *client) rawTarget(method, target string, lines ...string) string {
	var b strings.Builder
	b.WriteString(method + " " + target + " HTTP/1.1\r\nHost: " + c.host + "\r\n")
	for _, line := range lines {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

// write sends bytes. A server that has already answered may close the connection
// while they are sent, so a failure shows in the answer instead.
func (k *conn) write(data string) {
	k.SetWriteDeadline(time.Now().Add(patience))
	io.WriteString(k.Conn, data)
}

// answer reads the next response, to its end.
func (k *conn) answer(method string) *reply {
	r := &reply{c: k.c, what: method + " over a socket"}
	k.SetReadDeadline(time.Now().Add(patience))
	resp, err := http.ReadResponse(k.r, &http.Request{Method: method})
	if err != nil {
		r.Err = err
		return r
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	r.Status, r.Header, r.Body, r.Err = resp.StatusCode, resp.Header, string(content), err
	if resp.Close {
		r.Header.Set("Connection", "close")
	}
	return r
}

// exchange sends a whole request and reads its answer.
func (k *conn) exchange(method, data string) *reply {
	k.write(data)
	return k.answer(method)
}

// closed demands that the server closes the connection and sends nothing more.
func (k *conn) closed() {
	k.c.Helper()
	k.SetReadDeadline(time.Now().Add(patience))
	rest, err := io.ReadAll(k.r)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		k.c.Errorf("the server keeps the connection open")
	}
	if len(rest) > 0 {
		k.c.Errorf("the server sent more: %s", short(string(rest)))
	}
}
