package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// call is a request that can be made more than once.
type call struct {
	op     string
	method string
	url    *url.URL
	query  string
	header http.Header
	body   []byte
	token  string // instead of the client's, for claims
}

func (c *call) target() string { return c.url.Redacted() }

// answer is a response whose body has been read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes a call until it succeeds or an error is final, and may repeat it
// whatever became of the attempt before.
func (c *Client) do(ctx context.Context, req *call) (*answer, error) {
	return c.doWhile(ctx, req, func(error) bool { return true })
}

// doWhile repeats only after errors for which again is true.
func (c *Client) doWhile(ctx context.Context, req *call, again func(error) bool) (*answer, error) {
	r := c.retrier()
	for {
		a, err := c.attempt(ctx, req)
		if err == nil || !again(err) {
			return a, err
		}
		if err := r.wait(ctx, err); err != nil {
			return nil, err
		}
	}
}

// attempt makes a call once and reads the whole answer. An answer other than 2xx is
// an *Error.
func (c *Client) attempt(ctx context.Context, req *call) (*answer, error) {
	res, err := c.open(ctx, req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return c.finish(ctx, req, res)
}

// finish reads the rest of an answer.
func (c *Client) finish(ctx context.Context, req *call, res *http.Response) (*answer, error) {
	limit := c.opts.MaxAnswer
	good := res.StatusCode/100 == 2
	if !good {
		limit = maxErrorBody
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	a := &answer{res.StatusCode, res.Header, body}
	switch {
	case !good:
		return nil, refusal(req.op, req.target(), a) // however much of its text came
	case err != nil:
		return nil, networkError(ctx, req.op, req.target(), err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("%s %s: the answer is larger than %d bytes", req.op, req.target(), limit)
	}
	return a, nil
}

// open makes a call once and gives the answer with its body unread. With a Token
// function a 401 is tried once more, if that gives another token now.
func (c *Client) open(ctx context.Context, req *call) (*http.Response, error) {
	token := req.token
	var err error
	if token == "" && c.opts.Token != nil {
		if token, err = c.opts.Token(ctx); err != nil {
			return nil, fmt.Errorf("%s %s: get a token: %w", req.op, req.target(), err)
		}
	}
	res, err := c.send(ctx, req, token)
	if err != nil || res.StatusCode != http.StatusUnauthorized || req.token != "" || c.opts.Token == nil {
		return res, err
	}
	fresh, err := c.opts.Token(ctx)
	if err != nil || fresh == token {
		return res, nil // the 401 says more
	}
	res.Body.Close()
	return c.send(ctx, req, fresh)
}

func (c *Client) send(ctx context.Context, req *call, token string) (*http.Response, error) {
	inner, cancel := context.WithCancelCause(ctx)
	w := &watch{cancel: cancel, limit: c.opts.StallTimeout}
	w.timer = time.AfterFunc(w.limit, func() { cancel(errStalled) })
	r, err := c.request(inner, req, w, token)
	if err == nil {
		var res *http.Response
		if res, err = c.opts.HTTPClient.Do(r); err == nil {
			w.timer.Stop()
			if res.Request != nil && res.Request.Method != req.method {
				res.Body.Close()
				w.stop()
				return nil, fmt.Errorf("%s %s: a redirect turned the %s into a %s", req.op, req.target(), req.method, res.Request.Method)
			}
			res.Body = &watchedBody{res.Body, inner, w}
			return res, nil
		}
	}
	w.stop()
	if ctx.Err() == nil && errors.Is(context.Cause(inner), errStalled) {
		err = errStalled
	}
	return nil, networkError(ctx, req.op, req.target(), err)
}

func (c *Client) request(ctx context.Context, req *call, w *watch, token string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, req.method, req.url.String(), nil)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = req.query
	r.Header.Set("User-Agent", "durablestreams-client")
	for _, h := range []http.Header{c.opts.Header, req.header} {
		for name, values := range h {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if len(req.body) > 0 {
		r.ContentLength = int64(len(req.body))
		r.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(&watchedReader{bytes.NewReader(req.body), w}), nil
		}
		r.Body, err = r.GetBody()
	}
	return r, err
}

// watch ends an attempt that makes no progress. Its timer runs while something is
// waited for.
type watch struct {
	timer  *time.Timer
	limit  time.Duration
	cancel context.CancelCauseFunc
}

func (w *watch) progress() { w.timer.Reset(w.limit) }

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

type watchedReader struct {
	io.Reader
	w *watch
}

func (r *watchedReader) Read(p []byte) (int, error) {
	r.w.progress()
	return r.Reader.Read(p)
}

type watchedBody struct {
	io.ReadCloser
	ctx context.Context // of the attempt that this is the end of
	w   *watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.w.progress()
	n, err := b.ReadCloser.Read(p)
	b.w.timer.Stop() // what the reader does meanwhile may take its time
	if err != nil && err != io.EOF && errors.Is(context.Cause(b.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.w.stop()
	return b.ReadCloser.Close()
}

// retrier paces the attempts of one call, or of one reader.
type retrier struct {
	opts     *Options
	failures int
	since    time.Time // the first of the failures
}

func (c *Client) retrier() retrier { return retrier{opts: &c.opts} }

// succeeded forgets the failures before.
func (r *retrier) succeeded() { r.failures = 0 }

// wait returns nil when the next attempt is due, or the error that is final.
func (r *retrier) wait(ctx context.Context, err error) error {
	if !retryable(err) || r.opts.GiveUpAfter < 0 {
		return err
	}
	if r.failures == 0 {
		r.since = time.Now()
	}
	delay := r.delay(err)
	if r.opts.GiveUpAfter > 0 && time.Since(r.since)+delay > r.opts.GiveUpAfter {
		return err
	}
	r.opts.OnRetry(err, delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
}

// delay doubles with each failure, half of it by chance so that clients which
// failed together do not come back together. A server's Retry-After is never
// undercut, and spread by a tenth.
func (r *retrier) delay(err error) time.Duration {
	d := r.opts.MaxDelay
	if r.failures < 20 {
		d = min(r.opts.MinDelay<<r.failures, d)
	}
	r.failures++
	d -= rand.N(d/2 + 1)
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		d = max(d, e.RetryAfter+rand.N(e.RetryAfter/10+1))
	}
	return d
}

func isTrue(value string) bool { return strings.EqualFold(value, "true") }
