package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The paths and parameters are those that `go tool pprof` and `go tool trace` know from
// net/http/pprof. That package is not used: to import it is to publish the profiles on
// http.DefaultServeMux, which is up to the program that a server is embedded in.

// maxSeconds bounds how long a profile may take.
const maxSeconds = 300

func addProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/{$}", listProfiles)
	mux.HandleFunc("GET /debug/pprof/{name}", writeProfile)
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		record(w, r, 30*time.Second, pprof.StartCPUProfile, pprof.StopCPUProfile)
	})
	mux.HandleFunc("GET /debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		record(w, r, time.Second, trace.Start, trace.Stop)
	})
}

func listProfiles(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "profile?seconds=30\ntrace?seconds=1\n")
	profiles := pprof.Profiles()
	slices.SortFunc(profiles, func(a, b *pprof.Profile) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, p := range profiles {
		fmt.Fprintf(w, "%s?debug=1\t%d\n", p.Name(), p.Count())
	}
}

// writeProfile writes what there is now: binary, or as text with debug=1 or 2.
func writeProfile(w http.ResponseWriter, r *http.Request) {
	profile := pprof.Lookup(r.PathValue("name"))
	if profile == nil {
		http.Error(w, "there is no such profile", http.StatusNotFound)
		return
	}
	if profile.Name() == "heap" && r.FormValue("gc") == "1" {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(r.FormValue("debug")) // what is no number is 0
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		attach(w, profile.Name())
	}
	_ = profile.WriteTo(w, debug) // fails if the client has gone
}

// record starts a recording and stops it after as many seconds as the client wants, or
// when it has gone.
func record(w http.ResponseWriter, r *http.Request, length time.Duration, start func(io.Writer) error, stop func()) {
	if text := r.FormValue("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds > 0 && seconds <= maxSeconds) {
			http.Error(w, fmt.Sprintf("seconds: want a number up to %d", maxSeconds), http.StatusBadRequest)
			return
		}
		length = time.Duration(seconds * float64(time.Second))
	}
	attach(w, "profile")
	out := &sharedWriter{w: w}
	if err := start(out); err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, err.Error(), http.StatusConflict) // another one is under way
		return
	}
	defer stop()
	out.flush() // the client sees that it has begun
	ctx, cancel := context.WithTimeout(r.Context(), length)
	defer cancel()
	<-ctx.Done()
}

// sharedWriter is an answer that a recording writes to from a goroutine of its own.
type sharedWriter struct {
	mu sync.Mutex
	w  http.ResponseWriter
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func (s *sharedWriter) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = http.NewResponseController(s.w).Flush() // fails if the client has gone
}

func attach(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
}
