package metamorphic

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/store"
	"durablestreams/stream"
)

// marker is an observer that keeps, with every change of a stream, a row that
// tells the tail which the stream has after it. It leaves half of the paths out.
type marker struct{ decided atomic.Uint64 }

func (m *marker) Version() uint64               { return 1 + m.decided.Load()/16 }
func (m *marker) Interested(p stream.Path) bool { return marked(p) }
func (m *marker) Published(stream.Path)         {}

func (m *marker) Decided(c store.Change, put func([]store.Row)) {
	m.decided.Add(1)
	r := store.Row{Key: markKey(c.Path)}
	if !c.Gone {
		r.Value = []byte(c.After.String())
	}
	put([]store.Row{r})
}

func marked(p stream.Path) bool          { return p[0]%2 == 0 }
func markKey(p stream.Path) (key []byte) { return []byte("tail/" + string(p)) }

// rowReader is a target that keeps rows: an engine opened by [Observed].
type rowReader interface {
	Rows(prefix []byte, yield func(store.Row) error) error
}

// Observed is [Engine] with an observer, whose rows are compared with the streams
// as often as those are with the model.
func Observed(dir string, o store.Options) Opener {
	return func(fs vfs.FS) (Target, error) {
		o.Observer = &marker{}
		return Engine(dir, o)(fs)
	}
}

// compareMark says whether the row of a path tells the tail that the stream there
// has. A stream that is over by itself keeps its row until the target has
// noticed, for which pause gives it time.
func compareMark(t Target, p stream.Path, pause func(time.Duration)) error {
	rows, ok := t.(rowReader)
	if !ok || !marked(p) {
		return nil
	}
	look := func() (want, got string, err error) {
		snap, err := t.Stat(p, false)
		switch {
		case err == nil:
			want = snap.TailOffset().String()
		case !errors.Is(err, stream.NotFound) && !errors.Is(err, stream.Gone):
			return "", "", err
		}
		err = rows.Rows(markKey(p), func(r store.Row) error {
			got = string(r.Value)
			return nil
		})
		return want, got, err
	}
	want, got, err := look()
	if err == nil && want == "" && got != "" {
		pause(sweepLag)
		want, got, err = look()
	}
	if err == nil && want != got {
		err = fmt.Errorf("its row says that it ends at %q, it ends at %q", got, want)
	}
	return err
}
