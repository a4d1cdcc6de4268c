package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"

	"durablestreams/stream"
)

//go:embed page
var files embed.FS

// policy lets the page load its own files and speak to this server, nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const maxPrompt = 64 << 10

// name is what chats and answers may be called.
var name = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// routes are the page and its requests. Answers to prompts are written until ctx ends.
// Pages read streams by way of this server, which is where a real program would look who
// is asking; and only this server writes.
func routes(ctx context.Context, c *chat, root string) (http.Handler, error) {
	target, err := url.Parse(root)
	if err != nil {
		return nil, err
	}
	page, err := fs.Sub(files, "page")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	read := http.StripPrefix("/streams/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Cookie")
		if t := os.Getenv("DS_TOKEN"); t != "" {
			r.Out.Header.Set("Authorization", "Bearer "+t)
		}
	}, ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
		if r.Context().Err() == nil { // else the page has gone
			log.Print(err)
		}
		w.WriteHeader(http.StatusBadGateway)
	}})
	mux.Handle("GET /streams/chats/{chat}", named("chat", read.ServeHTTP))
	mux.Handle("GET /streams/answers/{answer}", named("answer", read.ServeHTTP))
	mux.Handle("PUT /chats/{chat}", named("chat", func(w http.ResponseWriter, r *http.Request) {
		reply(w, c.open(r.Context(), r.PathValue("chat")))
	}))
	mux.Handle("POST /chats/{chat}", named("chat", func(w http.ResponseWriter, r *http.Request) {
		var m message
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPrompt)).Decode(&m)
		if err != nil || strings.TrimSpace(m.Prompt) == "" {
			http.Error(w, `want {"prompt":"…"} of at most 64 KiB`, http.StatusBadRequest)
			return
		}
		reply(w, c.ask(ctx, r.PathValue("chat"), m.Prompt)) // the answer outlives the request
	}))
	mux.Handle("POST /answers/{answer}/stop", named("answer", func(w http.ResponseWriter, r *http.Request) {
		reply(w, c.stop(r.Context(), r.PathValue("answer")))
	}))
	static := http.FileServerFS(page)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		static.ServeHTTP(w, r)
	})
	// Pages of other origins can't write here.
	return http.NewCrossOriginProtection().Handler(mux), nil
}

// named passes on requests whose path has a proper name in it.
func named(which string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !name.MatchString(r.PathValue(which)) {
			http.Error(w, "names are 1 to 64 letters, digits and hyphens", http.StatusBadRequest)
			return
		}
		next(w, r)
	}
}

// reply ends a request that writes.
func reply(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, stream.NotFound):
		http.Error(w, "there is no such chat or answer", http.StatusNotFound)
	default:
		log.Print(err)
		http.Error(w, "the streams cannot be written now", http.StatusBadGateway)
	}
}
