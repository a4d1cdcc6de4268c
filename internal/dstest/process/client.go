package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Client sends requests to one server. It may be used by many goroutines.
type Client struct {
	Streams string
	HTTP    *http.Client
}

// NewClient gives a client with connections of its own.
func NewClient(streams string) *Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	return &Client{Streams: streams, HTTP: &http.Client{Transport: transport}}
}

// Close drops the idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// Answer is an answer read to its end. With Err it is unknown what the server
// did.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error
}

// Tail is the Stream-Next-Offset.
func (a *Answer) Tail() string { return a.Header.Get("Stream-Next-Offset") }

// Closed reports whether the answer says that the stream ends there.
func (a *Answer) Closed() bool { return a.Header.Get("Stream-Closed") == "true" }

func (a *Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d %s", a.Status, strings.TrimSpace(a.Body))
}

// requestTime bounds one request.
const requestTime = 20 * time.Second

// Do sends one request. Target is a stream's path and perhaps a query; headers
// are names and values in turn.
func (c *Client) Do(method, target, body string, headers ...string) *Answer {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.Streams+"/"+target, strings.NewReader(body))
	if err != nil {
		return &Answer{Err: err}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return &Answer{Err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return &Answer{Status: res.StatusCode, Header: res.Header, Body: string(b), Err: err}
}

// ReadAll reads a stream from an offset to its tail, page by page. Closed and
// Tail are those of the last page; for JSON the body is the messages, each with
// a line feed.
func (c *Client) ReadAll(path, offset string) *Answer {
	var all strings.Builder
	for {
		a := c.Do(http.MethodGet, path+"?offset="+offset, "")
		if a.Err != nil || a.Status != http.StatusOK {
			return a
		}
		if a.Header.Get("Content-Type") == "application/json" {
			all.WriteString(Messages(a.Body))
		} else {
			all.WriteString(a.Body)
		}
		offset = a.Tail()
		if a.Header.Get("Stream-Up-To-Date") == "true" {
			a.Body = all.String()
			return a
		}
	}
}

// Messages turns an array of this package's own messages, which contain no white
// space, into lines.
func Messages(array string) string {
	inner := strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(array, "["), "]"))
	if inner == "" {
		return ""
	}
	return strings.ReplaceAll(inner, "},\n", "}\n") + "\n"
}

// Producer gives the headers of an idempotent append.
func Producer(id string, epoch, seq int) []string {
	return []string{"Producer-Id", id, "Producer-Epoch", strconv.Itoa(epoch), "Producer-Seq", strconv.Itoa(seq)}
}
