package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNotSent says that a request has not reached the server, and never will.
var ErrNotSent = errors.New("the server is down")

// Conn is the way to one life of a server.
type Conn struct {
	Life    int
	Streams string // URL of all streams, without a slash at the end
	HTTP    http.RoundTripper

	// LongPoll is how long the server lets a long-poll wait. 0: not known, or it
	// may end them earlier.
	LongPoll func() time.Duration

	// Exact says that time is virtual: what has been answered has reached everybody
	// who waits for it before time goes on.
	Exact bool

	// What the server's disk may do, and so the server answer.
	MayFail, MayBeFull bool
}

// patience is how long a client waits for an answer that has to come.
const patience = time.Minute

// Client sends requests and writes them down. It may be used from many goroutines.
type Client struct {
	ID  int
	Rec *Recorder
	*Conn
}

// Do sends a request, waits for its answer and writes both down. Without an answer
// that counts it returns an error; the operation is written down all the same,
// unless it was not sent.
func (c *Client) Do(ctx context.Context, op *Op) error {
	op.Client, op.Life = c.ID, c.Life
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.Rec.Begin(op)
	res, err := c.HTTP.RoundTrip(c.request(waiting, op))
	if err != nil {
		c.failed(op, err, ctx.Err() == nil && waiting.Err() != nil)
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a, err := c.answer(op, res, body, err)
	c.Rec.Done(op, a)
	if err != nil {
		return err
	}
	if op.Ask.Live == "long-poll" && a.Status == http.StatusNoContent && !a.Closed {
		c.Rec.NotBefore(op, op.Begin+int64(c.LongPoll()))
	}
	return nil
}

// failed notes that no answer came, late that none came although it was waited for.
func (c *Client) failed(op *Op, err error, late bool) {
	switch {
	case errors.Is(err, ErrNotSent) || errors.Is(err, syscall.ECONNREFUSED):
		c.Rec.Done(op, Answer{Status: notSent})
	case late:
		c.Rec.Done(op, Answer{Status: noAnswer})
	}
}

func (c *Client) request(ctx context.Context, op *Op) *http.Request {
	a := &op.Ask
	target := c.Streams + "/" + op.Path
	method := map[Kind]string{Create: "PUT", Append: "POST", Read: "GET", Head: "HEAD", Delete: "DELETE"}[op.Kind]
	if op.Kind == Read {
		target += "?offset=" + a.From
		if a.Live != "" {
			target += "&live=" + a.Live
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(sent(a.Type, string(a.Body))))
	if err != nil {
		panic(fmt.Sprintf("%s %s: %v", method, target, err)) // it is made of our own words
	}
	set := func(name, value string, is bool) {
		if is {
			req.Header.Set(name, value)
		}
	}
	set("Content-Type", a.Type, a.Type != "")
	set("Stream-Closed", "true", a.Close)
	set("Stream-Seq", a.Seq, a.Seq != "")
	set("Stream-TTL", number(a.TTL), a.TTL != nil)
	set("Stream-Expires-At", c.Rec.At(a.Until).UTC().Format(time.RFC3339Nano), a.Until != 0)
	if p := a.Producer; p != nil {
		set("Producer-Id", p.ID, true)
		set("Producer-Epoch", digits(p.Epoch), true)
		set("Producer-Seq", digits(p.Seq), true)
	}
	if a.Source != "" {
		set("Stream-Forked-From", req.URL.EscapedPath()[:len(req.URL.EscapedPath())-len(op.Path)]+a.Source, true)
		set("Stream-Fork-Offset", a.Point, a.Point != "")
		set("Stream-Fork-Sub-Offset", strconv.Itoa(a.Sub), a.Sub > 0)
	}
	return req
}

// answer reads an answer. An error means that it tells less than all.
func (c *Client) answer(op *Op, res *http.Response, body []byte, broken error) (Answer, error) {
	h := res.Header
	a := Answer{Status: res.StatusCode, Next: h.Get("Stream-Next-Offset"), Closed: h.Get("Stream-Closed") == "true",
		UpToDate: h.Get("Stream-Up-To-Date") == "true", TTL: h.Get("Stream-TTL"),
		ProducerEpoch: h.Get("Producer-Epoch"), ProducerSeq: h.Get("Producer-Seq"),
		Expected: h.Get("Producer-Expected-Seq"), Received: h.Get("Producer-Received-Seq")}
	if at, err := time.Parse(time.RFC3339Nano, h.Get("Stream-Expires-At")); err == nil {
		a.Until = int64(at.Sub(c.Rec.begun))
	}
	if a.Status < 300 {
		a.Type = h.Get("Content-Type")
	}
	if a.Status == http.StatusInternalServerError && c.MayFail {
		a.Status = diskFailed
	}
	if a.Status == http.StatusInsufficientStorage && c.MayBeFull {
		a.Status = diskFull
	}
	switch {
	case broken != nil && op.Kind == Read && a.Status == 200:
		if a = part(stored(a.Type, body)); op.Ask.From == "now" {
			a = Answer{} // of what, is not known
		}
		return a, broken
	case broken != nil:
		return Answer{}, broken
	case a.Status >= 400 && op.Kind != Head:
		var refusal struct{ Error struct{ Code string } }
		if err := json.Unmarshal(body, &refusal); err != nil {
			a.Code = fmt.Sprintf("%v: %q", err, body)
		} else {
			a.Code = refusal.Error.Code
		}
	case a.Status >= 400:
		a.Code = map[int]string{404: "not_found", 410: "gone"}[a.Status]
	case op.Kind == Read:
		a.Data = stored(a.Type, body)
	}
	return a, nil
}

// part is an answer that broke off.
func part(data Bytes) Answer {
	if data == "" {
		return Answer{}
	}
	return Answer{Status: 200, Data: data, Part: true}
}

// sent gives stored content as it is sent.
func sent(typ, content string) string {
	if typ != jsonType || content == "" {
		return content
	}
	return "[" + strings.TrimSuffix(content, ",\n") + "]"
}

// stored gives the content of an answer in stored form; of an array that broke off
// the messages that are whole.
func stored(typ string, body []byte) Bytes {
	if typ != jsonType {
		return Bytes(body)
	}
	var out strings.Builder
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return ""
	}
	for d.More() {
		var message json.RawMessage
		if d.Decode(&message) != nil {
			break
		}
		out.Write(message)
		out.WriteString(",\n")
	}
	return Bytes(out.String())
}
