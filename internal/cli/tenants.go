package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"durablestreams/internal/bytesize"
	"durablestreams/internal/manage"
)

// tenantsCommand is "ds tenants".
type tenantsCommand struct {
	List  tenantsListCommand  `cmd:"" help:"List tenants and what they use."`
	Show  tenantsShowCommand  `cmd:"" help:"Show what a tenant uses, may use, and was refused."`
	Purge tenantsPurgeCommand `cmd:"" help:"Delete all streams of a tenant."`
}

// tenantsListCommand is "ds tenants list".
type tenantsListCommand struct {
	operated
	JSON bool `name:"json" help:"Each tenant as a JSON object on a line."`
}

// Help is the text below the summary.
func (tenantsListCommand) Help() string {
	return `Lists the tenants of a server that was started with --tenants-file, in the order of their names: those that use something,
and those that stand in the file. A tenant is the first segment of its streams' paths.

Examples:

    ds tenants list
    ds tenants list --json | jq -r 'select(.bytes > 1e9) | .name'`
}

// tenantLine has the name at its end, as that of a stream.
const tenantLine = "%19s  %25s  %15s  %8s  %s\n"

// Run lists.
func (c *tenantsListCommand) Run(ctx context.Context, env *Env) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	if !c.JSON {
		if _, err := fmt.Fprintf(env.Stdout, tenantLine, "STREAMS", "SIZE", "LIVE", "REFUSED", "TENANT"); err != nil {
			return err
		}
	}
	return api.tenants(ctx, func(t json.RawMessage) error {
		if c.JSON {
			return writeLine(env.Stdout, t)
		}
		return tenantRow(env, t)
	})
}

func tenantRow(env *Env, line json.RawMessage) error {
	var t manage.Tenant
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("the server does not list tenants: %w", err)
	}
	r := &t.Refused
	_, err := fmt.Fprintf(env.Stdout, tenantLine, ofLimit(t.Streams, t.Limits.Streams), sizeOfLimit(t.Bytes, t.Limits.Bytes), ofLimit(t.LiveReaders, t.Limits.LiveReaders),
		fmt.Sprint(r.Streams+r.Bytes+r.Appends+r.LiveReaders), harmless(t.Name))
	return err
}

// ofLimit writes how much of a limit is used.
func ofLimit(n int64, limit *int64) string {
	if limit == nil {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, *limit)
}

func sizeOfLimit(n int64, limit *int64) string {
	if limit == nil {
		return quantity(float64(n))
	}
	return quantity(float64(n)) + " of " + bytesize.Format(*limit)
}

// tenants gives tenants as the server sends them, page by page.
func (a *manageAPI) tenants(ctx context.Context, yield func(json.RawMessage) error) error {
	for after := ""; ; {
		query := url.Values{"limit": {fmt.Sprint(listPage)}}
		if after != "" {
			query.Set("after", after)
		}
		var page struct {
			Tenants []json.RawMessage `json:"tenants"`
			Next    string            `json:"next"`
		}
		if err := a.ask(ctx, "list", http.MethodGet, "/tenants", query, &page); err != nil {
			return err
		}
		for _, t := range page.Tenants {
			if err := yield(t); err != nil {
				return err
			}
		}
		switch page.Next {
		case "":
			return nil
		case after:
			return fmt.Errorf("list %s: the server does not come to an end", a.base)
		}
		after = page.Next
	}
}

// tenantArg names a tenant.
type tenantArg struct {
	Tenant string `arg:"" help:"Name of the tenant: the first segment of its streams' paths, as it stands in URLs."`
}

// path is where the API has the tenant.
func (a *tenantArg) path() (string, error) {
	if a.Tenant == "" || strings.ContainsAny(a.Tenant, "/?#") {
		return "", usageError{fmt.Errorf("%q is not the first segment of a stream's path", a.Tenant)}
	}
	return "/tenants/" + a.Tenant, nil
}

// tenantsShowCommand is "ds tenants show".
type tenantsShowCommand struct {
	operated
	tenantArg
	JSON bool `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (tenantsShowCommand) Help() string {
	return `Shows what a tenant uses and may use, and how often it was refused something since the server began.

Examples:

    ds tenants show shop
    ds tenants show shop --json | jq .bytes`
}

// Run shows.
func (c *tenantsShowCommand) Run(ctx context.Context, env *Env) error {
	at, err := c.path()
	if err != nil {
		return err
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := api.ask(ctx, "show", http.MethodGet, at, nil, &answer); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.Stdout, answer)
	}
	var t manage.Tenant
	if err := json.Unmarshal(answer, &t); err != nil {
		return fmt.Errorf("the server does not show tenants: %w", err)
	}
	return printRows(env, tenantRows(&t))
}

func tenantRows(t *manage.Tenant) (rows [][2]string) {
	add := func(name, value string) { rows = append(rows, [2]string{name, value}) }
	add("tenant", t.Name)
	if !t.Listed {
		add("limits", "those of all others")
	}
	add("streams", ofLimit(t.Streams, t.Limits.Streams))
	add("size", sizeOfLimit(t.Bytes, t.Limits.Bytes))
	add("live", ofLimit(t.LiveReaders, t.Limits.LiveReaders))
	if n := t.Limits.AppendsPerSecond; n != nil {
		add("appends", fmt.Sprintf("at most %d a second", *n))
	}
	if n := t.Limits.AppendBytesPerSecond; n != nil {
		add("appended", fmt.Sprintf("at most %s a second", bytesize.Format(*n)))
	}
	r := &t.Refused
	add("refused", fmt.Sprintf("streams %d, bytes %d, appends %d, live reads %d", r.Streams, r.Bytes, r.Appends, r.LiveReaders))
	return rows
}

// tenantsPurgeCommand is "ds tenants purge".
type tenantsPurgeCommand struct {
	operated
	tenantArg
	Yes  bool `short:"y" help:"Do not ask. Needed where nobody can answer."`
	JSON bool `name:"json" help:"Report as a JSON object."`
}

// Help is the text below the summary.
func (tenantsPurgeCommand) Help() string {
	return `Deletes all streams of a tenant, with all their data. Meanwhile it can create none. What forks of other tenants have inherited
stays until they are deleted, too. When the command is interrupted, what was deleted is deleted; the same command goes on.

Example:

    ds tenants purge shop --yes`
}

// purgeReport is what --json gives.
type purgeReport struct {
	Tenant string `json:"tenant"`
	manage.Purge
}

// Run deletes.
func (c *tenantsPurgeCommand) Run(ctx context.Context, env *Env) error {
	at, err := c.path()
	if err != nil {
		return err
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	if !c.Yes {
		var t manage.Tenant
		if err := api.ask(ctx, "show", http.MethodGet, at, nil, &t); err != nil {
			return err
		}
		all := fmt.Sprintf("all %d streams of the tenant %s, %s", t.Streams, harmless(t.Name), quantity(float64(t.Bytes)))
		if err := confirm(env, all, "--yes confirms it"); err != nil {
			return err
		}
	}
	var done manage.Purge
	if err := api.ask(ctx, "purge", http.MethodDelete, at+"/streams", nil, &done); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(env.Stdout, purgeReport{c.Tenant, done})
	}
	_, err = fmt.Fprintf(env.Stdout, "deleted %d streams of the tenant %s, %s\n", done.Streams, harmless(c.Tenant), quantity(float64(done.Bytes)))
	return err
}
