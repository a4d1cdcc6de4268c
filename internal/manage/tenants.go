package manage

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"durablestreams/internal/tenant"
	"durablestreams/store"
	"durablestreams/stream"
)

// TenantServer is what the API of tenants needs.
type TenantServer interface {
	// Tenants gives tenants whose names come after one, in order.
	Tenants(after string, max int) []tenant.Usage

	// Tenant gives one, or stream.NotFound.
	Tenant(name string) (tenant.Usage, error)

	// PurgeTenant deletes all streams of one.
	PurgeTenant(ctx context.Context, name string, progress func(store.Deletion)) (store.Deletion, error)
}

// Tenant is a tenant as the API shows it.
type Tenant struct {
	Name        string       `json:"name"`
	Listed      bool         `json:"listed"` // it stands in the tenants file
	Streams     int64        `json:"streams"`
	Bytes       int64        `json:"bytes"` // stored, without what forks inherit
	LiveReaders int64        `json:"liveReaders"`
	Limits      TenantLimits `json:"limits"`
	Refused     TenantSaidNo `json:"refused"` // since the server began
}

// TenantLimits are what a tenant may use; what is absent has no bound.
type TenantLimits struct {
	Streams              *int64 `json:"streams,omitempty"`
	Bytes                *int64 `json:"bytes,omitempty"`
	AppendsPerSecond     *int64 `json:"appendsPerSecond,omitempty"`
	AppendBytesPerSecond *int64 `json:"appendBytesPerSecond,omitempty"`
	LiveReaders          *int64 `json:"liveReaders,omitempty"`
}

// TenantSaidNo counts refusals by what was asked for.
type TenantSaidNo struct {
	Streams     uint64 `json:"streams"`
	Bytes       uint64 `json:"bytes"`
	Appends     uint64 `json:"appends"`
	LiveReaders uint64 `json:"liveReaders"`
}

// TenantPage is a part of the list of tenants.
type TenantPage struct {
	Tenants []Tenant `json:"tenants"`
	Next    string   `json:"next,omitempty"` // for after; absent at the end
}

// Purge is what the deletion of a tenant's streams has done.
type Purge struct {
	Streams int    `json:"streams"` // deleted
	Bytes   uint64 `json:"bytes"`   // of theirs
}

func describeTenant(u *tenant.Usage) Tenant {
	limit := func(n int64) *int64 {
		if n == tenant.Unlimited {
			return nil
		}
		return &n
	}
	l := &u.Limits
	return Tenant{Name: u.Name, Listed: u.Listed, Streams: u.Streams, Bytes: u.Bytes, LiveReaders: u.Live,
		Limits: TenantLimits{Streams: limit(l.Streams), Bytes: limit(l.Bytes), AppendsPerSecond: limit(l.Appends),
			AppendBytesPerSecond: limit(l.AppendBytes), LiveReaders: limit(l.Live)},
		Refused: TenantSaidNo{Streams: u.Refused.Streams, Bytes: u.Refused.Bytes, Appends: u.Refused.Appends, LiveReaders: u.Refused.Live}}
}

// Tenants serves the API of tenants at a path. fail answers a request that cannot be
// answered otherwise. It must see paths as they were sent.
//
//	GET at?after=&limit=         a page of tenants, in the order of their names
//	GET at/<name>                one tenant
//	DELETE at/<name>/streams     deletes all its streams; answers when that is done
func Tenants(at string, s TenantServer, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	a := &tenantAPI{server: s}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, what, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), at), "/"), "/")
		answer, allowed, err := a.do(r, name, what)
		switch {
		case err != nil:
			fail(w, r, err)
			return
		case allowed != "":
			refuseMethod(w, allowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(answer) // the client has gone, or it would marshal
	})
}

func refuseMethod(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusMethodNotAllowed)
	_, _ = w.Write([]byte(`{"error":{"code":"method_not_allowed","message":"this takes ` + allowed + `"}}` + "\n"))
}

type tenantAPI struct{ server TenantServer }

// do answers a request, or gives the methods that are allowed where its own is not.
func (a *tenantAPI) do(r *http.Request, name, what string) (answer any, allowed string, err error) {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case name == "" && what == "":
		if !read {
			return nil, "GET, HEAD", nil
		}
		answer, err = a.list(r)
	case what == "":
		if !read {
			return nil, "GET, HEAD", nil
		}
		var u tenant.Usage
		if u, err = a.server.Tenant(name); err == nil {
			answer = describeTenant(&u)
		}
	case what == "streams":
		if r.Method != http.MethodDelete {
			return nil, "DELETE", nil
		}
		if r.URL.RawQuery != "" {
			return nil, "", refuse("this deletes all streams of the tenant and takes no parameters")
		}
		var d store.Deletion
		if d, err = a.server.PurgeTenant(r.Context(), name, nil); err == nil {
			answer = Purge{Streams: d.Streams, Bytes: d.Bytes}
		}
	default:
		err = &stream.Error{Kind: stream.NotFound, Message: "there are tenants, and streams of each, here"}
	}
	return answer, "", err
}

func (a *tenantAPI) list(r *http.Request) (any, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse("the query is malformed")
	}
	limit, err := limitOf(q, defaultLimit)
	if err != nil {
		return nil, err
	}
	found := a.server.Tenants(q.Get("after"), limit)
	page := TenantPage{Tenants: make([]Tenant, len(found))}
	for i := range found {
		page.Tenants[i] = describeTenant(&found[i])
	}
	if len(found) == limit {
		page.Next = found[limit-1].Name
	}
	return page, nil
}
