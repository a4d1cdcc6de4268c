package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"durablestreams/stream"
)

// Server is what a handler backs up.
type Server interface {
	// Backup takes a picture of everything.
	Backup(ctx context.Context) (*Set, error)

	// Enough gives the reason why a backup that is being sent should end, nil if it
	// should not.
	Enough() error

	// Version is the program's.
	Version() string
}

// Handler sends backups, one at a time. GET gives a whole one; POST gives what is new to
// somebody who has the files that the body lists:
//
//	{"have": [{"name": "archive/000007.sst", "size": 123, "sha256": "…"}]}
//
// What goes wrong before the first byte is answered by fail. What goes wrong later cuts the
// connection: the answer has no manifest then.
func Handler(s Server, log *slog.Logger, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return &handler{server: s, log: log, fail: fail}
}

type handler struct {
	server Server
	log    *slog.Logger
	fail   func(http.ResponseWriter, *http.Request, error)
	sums   Sums
	busy   atomic.Bool
}

// maxHave is the largest list of what a client has, in bytes.
const maxHave = 64 << 20

// writeTime is how long a client may take for one piece of a backup. Whoever takes longer
// would keep the space of files that the server has let go of.
const writeTime = time.Minute

// ServeHTTP sends one backup.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = io.WriteString(w, `{"error":{"code":"method_not_allowed","message":"GET gives a whole backup, POST what is new"}}`+"\n")
		return
	}
	have, err := readHave(w, r)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if h.busy.Swap(true) {
		h.fail(w, r, &stream.Error{Kind: stream.Busy, Message: "another backup is under way"})
		return
	}
	defer h.busy.Store(false)
	set, err := h.server.Backup(r.Context())
	if err != nil {
		h.log.Error("no backup could be begun", "err", err)
		h.fail(w, r, err)
		return
	}
	began := time.Now()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Disposition", `attachment; filename="ds-backup-`+set.time.Format("20060102T150405Z")+`.tar"`)
	to := &pacedWriter{w: w, control: http.NewResponseController(w), enough: h.server.Enough}
	m, err := h.sums.Send(r.Context(), to, set, have, h.server.Version())
	if err := errors.Join(err, set.Close()); err != nil {
		h.log.Error("a backup was not sent to its end", "bytes", to.n, "err", err)
		panic(http.ErrAbortHandler) // what was sent must not look like a whole answer
	}
	h.log.Info("backup sent", "files", len(m.Files), "of_bytes", m.Bytes(), "sent_bytes", to.n, "up_to_record", m.LastRecord, "took", time.Since(began).Round(time.Millisecond))
}

// readHave reads what the client has; nothing with GET.
func readHave(w http.ResponseWriter, r *http.Request) ([]File, error) {
	if r.Method == http.MethodGet {
		return nil, nil
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHave))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &stream.Error{Kind: stream.TooLarge, Message: "the list of files is larger than 64 MiB"}
	}
	if err != nil {
		return nil, &stream.Error{Kind: stream.IncompleteBody, Message: "the list of files did not come to its end", Err: err}
	}
	var body struct {
		Have []File `json:"have"`
	}
	if len(b) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(b, &body); err != nil {
		return nil, &stream.Error{Kind: stream.InvalidJSON, Message: `want {"have": [{"name": …, "size": …, "sha256": …}]}`, Err: err}
	}
	for i := range body.Have {
		if err := body.Have[i].check(); err != nil {
			return nil, &stream.Error{Kind: stream.InvalidJSON, Message: fmt.Sprintf("file %d of the list: %v", i+1, err)}
		}
	}
	return body.Have, nil
}

// pacedWriter writes to a client that must not be too slow, for as long as it may.
type pacedWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	enough  func() error
	n       int64
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if err := p.enough(); err != nil {
		return 0, err
	}
	if err := p.control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := p.w.Write(b)
	p.n += int64(n)
	return n, err
}
