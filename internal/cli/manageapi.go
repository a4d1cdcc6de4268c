package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"durablestreams/client"
	"durablestreams/internal/manage"
	"durablestreams/stream"
)

// operated is what commands have in common that ask the admin address of a server.
type operated struct {
	AdminURL string `group:"server" name:"admin-url" default:"http://127.0.0.1:8643" placeholder:"${default}" help:"Admin address of the server."`
	Token    string `group:"server" secret:"" placeholder:"TOKEN" help:"Bearer token with the right admin, where access is controlled. In the environment other users of this machine do not see it."`
}

func (o *operated) api() (*manageAPI, error) {
	return newManageAPI("--admin-url", o.AdminURL, "/api/v1", o.Token)
}

// manageAPI asks a server what package manage answers.
type manageAPI struct {
	base  string // without a slash at the end
	token string
}

// newManageAPI asks below a URL that a flag gives.
func newManageAPI(flag, text, below, token string) (*manageAPI, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, usageError{fmt.Errorf("%s: want a URL such as http://127.0.0.1:8643", flag)} // its text may hold a password
	}
	return &manageAPI{strings.TrimSuffix(text, "/") + below, token}, nil
}

// errNoAPI says that there is no such API at an address.
var errNoAPI = errors.New("there is no management API")

// largestAnswer bounds an answer, in bytes: it is more than 10,000 streams take.
const largestAnswer = 64 << 20

// ask sends a request and reads its answer. op says in errors what was wanted.
func (a *manageAPI) ask(ctx context.Context, op, method, what string, query url.Values, into any) error {
	target := a.base + what
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return usageError{err}
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	shown := r.URL.Redacted()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the rest is said already
		}
		return &client.NetworkError{Op: op, URL: shown, Err: err}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestAnswer))
	if err != nil {
		return &client.NetworkError{Op: op, URL: shown, Err: err}
	}
	if answer.StatusCode != http.StatusOK {
		return notDone(op, shown, answer.StatusCode, body)
	}
	if json.Unmarshal(body, into) != nil {
		return fmt.Errorf("%s %s: %w", op, shown, errNoAPI)
	}
	return nil
}

// notDone is the error for an answer that is not a success.
func notDone(op, target string, status int, body []byte) error {
	var told struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(body, &told) != nil || told.Error.Code == "" {
		if status == http.StatusNotFound {
			return fmt.Errorf("%s %s: %w", op, target, errNoAPI)
		}
		text, _, _ := bytes.Cut(body, []byte("\n"))
		told.Error.Message = printable(string(text[:min(len(text), maxReason)]))
	}
	return &client.Error{Op: op, URL: target, Status: status, Kind: stream.Kind(told.Error.Code), Code: printable(told.Error.Code), Message: printable(told.Error.Message)}
}

// listPage is how many streams are asked for at once, or deleted. For each page the
// server looks at all paths that its archive does not have yet, so it is not small.
const listPage = 5000

// list gives streams as the server sends them, page by page, until max were given (0:
// all).
func (a *manageAPI) list(ctx context.Context, prefix, after string, max int, yield func(json.RawMessage) error) error {
	for n := 0; ; {
		limit := listPage
		if max > 0 {
			limit = min(limit, max-n)
		}
		query := url.Values{"limit": {fmt.Sprint(limit)}}
		if prefix != "" {
			query.Set("prefix", prefix)
		}
		if after != "" {
			query.Set("after", after)
		}
		var page struct {
			Streams []json.RawMessage `json:"streams"`
			Next    string            `json:"next"`
		}
		if err := a.ask(ctx, "list", http.MethodGet, "/streams", query, &page); err != nil {
			return err
		}
		for _, s := range page.Streams {
			if err := yield(s); err != nil {
				return err
			}
		}
		n += len(page.Streams)
		switch {
		case page.Next == "" || max > 0 && n >= max:
			return nil
		case page.Next == after:
			return fmt.Errorf("list %s: the server does not come to an end", a.base)
		}
		after = page.Next
	}
}

func (a *manageAPI) totals(ctx context.Context, prefix string) (t manage.Totals, err error) {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return t, a.ask(ctx, "count", http.MethodGet, "/totals", query, &t)
}
