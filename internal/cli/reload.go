package cli

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/alecthomas/kong"

	"durablestreams"
)

// reloadable is the tag of flags that a running server takes anew from the environment
// of its start and from the settings file.
const reloadable = "reload"

// reloader takes settings anew while a server runs.
type reloader struct {
	env    *Env
	log    *slog.Logger
	level  *slog.LevelVar
	server *durablestreams.Server
	notify notifier
	begun  *kong.Context // the settings of the start: what needs a restart is in force as it was then
	parsed *kong.Context // the settings of the last reload
}

// run reloads whenever it is asked to, until ctx ends.
func (r *reloader) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.env.Reload:
			r.notify.reloading()
			r.reload()
			r.notify.ready()
		}
	}
}

// reload takes what may change, all of it or, where something is wrong, nothing.
func (r *reloader) reload() {
	c, parsed, err := parseServe(r.env.args, r.env.LookupEnv)
	if err == nil {
		err = r.server.Reload(c.options(r.log))
	}
	if err != nil {
		r.log.Error("settings are not reloaded, the old ones stay", "err", err)
		return
	}
	changed := changes(r.parsed, parsed, true)
	restart := changes(r.begun, parsed, false)
	r.level.Set(c.level())
	if len(restart) > 0 {
		r.log.Warn("these settings have changed and need a restart", "settings", restart)
	}
	r.log.Info("settings reloaded", "changed", changed)
	r.parsed = parsed
}

// changes names the settings that differ: of those that a running server takes anew, or of
// the others.
func changes(before, after *kong.Context, reloads bool) (names []string) {
	old := map[string]any{}
	for _, f := range before.Flags() {
		old[f.Name] = f.Target.Interface()
	}
	for _, f := range after.Flags() {
		if isSetting(f) && f.Tag.Has(reloadable) == reloads && !reflect.DeepEqual(old[f.Name], f.Target.Interface()) {
			names = append(names, f.Name)
		}
	}
	return names
}
