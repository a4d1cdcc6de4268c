package durablestreams

import (
	"context"
	"errors"
	"net/http"

	"durablestreams/httpapi"
	"durablestreams/internal/manage"
	"durablestreams/internal/tenant"
	"durablestreams/store"
	"durablestreams/stream"
)

// TenantUsage is what a tenant uses, its limits, and what was refused.
type TenantUsage = tenant.Usage

// tenants reads the tenants file; nil if there is none.
func (o *Options) tenants() (*tenant.Table, error) {
	if o.TenantsFile == "" {
		return nil, nil
	}
	return tenant.ReadFile(o.TenantsFile)
}

// openTenants gives the store a ledger, if there is to be one.
func (s *Server) openTenants(so *store.Options) (*tenant.Ledger, error) {
	table, err := s.opts.tenants()
	if err != nil || table == nil {
		return nil, err
	}
	l := tenant.NewLedger(table)
	so.Ledger = l
	return l, nil
}

// reloadTenants takes the limits of the tenants file of now.
func (s *Server) reloadTenants() error {
	table, err := s.opts.tenants()
	if err == nil && table != nil && s.tenants.Reload(table) {
		s.opts.Logger.Info("limits of tenants have changed")
	}
	return err
}

// noTenant says that there is nothing to tell of a tenant.
func noTenant() error {
	return &stream.Error{Kind: stream.NotFound, Message: "there is no such tenant: it has no streams and does not stand in the tenants file"}
}

// Tenants gives up to max tenants whose names come after one, in the order of names:
// those that use something or stand in the tenants file. It gives none if there is no
// such file.
func (s *Server) Tenants(after string, max int) []TenantUsage {
	if s.tenants == nil {
		return nil
	}
	return s.tenants.List(after, max)
}

// Tenant gives one of them, or [stream.NotFound].
func (s *Server) Tenant(name string) (TenantUsage, error) {
	if s.tenants != nil {
		if u, ok := s.tenants.Usage(name); ok {
			return u, nil
		}
	}
	return TenantUsage{}, noTenant()
}

// PurgeTenant deletes all streams of a tenant, step by step, and tells progress, which
// may be nil, the sum so far. Meanwhile none can be created. It can be ended by ctx and
// called again. Streams that forks of other tenants still read go with those. It fails
// with [stream.NotFound] if there is no such tenant.
func (s *Server) PurgeTenant(ctx context.Context, name string, progress func(Deletion)) (Deletion, error) {
	if _, err := s.Tenant(name); err != nil {
		return Deletion{}, err
	}
	defer s.tenants.Purge(name)()
	sum, err := s.DeletePrefix(ctx, tenant.Prefix(name), progress)
	if err != nil {
		return sum, err
	}
	size, err := s.deleteOne(ctx, stream.Path(name)) // which the prefix leaves out
	switch {
	case errors.Is(err, stream.NotFound), errors.Is(err, stream.Gone):
		return sum, nil
	case err != nil:
		return sum, err
	}
	sum.Streams++
	sum.Bytes += size
	if progress != nil {
		progress(sum)
	}
	return sum, nil
}

// deleteOne deletes the stream at a path, and gives its size.
func (s *Server) deleteOne(ctx context.Context, p stream.Path) (size uint64, err error) {
	info, err := s.store.Inspect(p)
	if err != nil {
		return 0, err
	}
	done := make(ended, 1)
	s.store.Apply(&stream.Delete{Path: p}, done)
	select {
	case err = <-done:
		return info.Size(), err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// ended is the completion of a change. It has room for one.
type ended chan error

// Complete implements [stream.Completion].
func (e ended) Complete(_ stream.Result, err error) { e <- err }

// mountTenants gives operators the API of tenants. Where access is controlled that
// needs the right to operate all streams.
func (s *Server) mountTenants() {
	fail := func(w http.ResponseWriter, r *http.Request, err error) {
		httpapi.Refusal(s.core, s.opts.http(), err).ServeHTTP(w, r)
	}
	const at = adminAPI + "/tenants"
	api := manage.Tenants(at, s, fail)
	h := s.gated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Authorize(r.Header, stream.MayAdmin, ""); err != nil {
			fail(w, r, err)
			return
		}
		api.ServeHTTP(w, r)
	}))
	s.admin.handler.Handle(at, h)
	s.admin.handler.Mount(at+"/", h)
}

// tenantFigures shows the tenants of the tenants file: others, who come and go as they
// like, have no metrics of their own.
func tenantFigures(out sink, listed []TenantUsage) {
	for _, u := range listed {
		out.gauge("ds_tenant_streams", "Streams of a tenant of the tenants file.", float64(u.Streams), "tenant", u.Name)
		out.gauge("ds_tenant_bytes", "Their stored bytes.", float64(u.Bytes), "tenant", u.Name)
		out.gauge("ds_tenant_live_readers", "Live reads of a tenant that wait for data.", float64(u.Live), "tenant", u.Name)
		for of, bound := range map[string]int64{"streams": u.Limits.Streams, "bytes": u.Limits.Bytes, "live_readers": u.Limits.Live} {
			if bound != tenant.Unlimited {
				out.gauge("ds_tenant_limit", "The bound of what the metric ds_tenant_<of> shows.", float64(bound), "tenant", u.Name, "of", of)
			}
		}
		for reason, n := range map[string]uint64{"quota_streams": u.Refused.Streams, "quota_bytes": u.Refused.Bytes, "quota_appends": u.Refused.Appends, "quota_live": u.Refused.Live} {
			out.counter("ds_tenant_refused_total", "Refusals that a tenant has met at its limits, by code.", float64(n), "tenant", u.Name, "reason", reason)
		}
	}
}
