package durablestreams_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"durablestreams"
)

// The streams of one directory, as a part of an application's own HTTP server.
func Example_embed() {
	streams, err := durablestreams.Open("", &durablestreams.Options{InMemory: true, BasePath: "/events"})
	if err != nil {
		log.Fatal(err)
	}
	defer streams.Shutdown(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, streams.Root()) {
			streams.Handler().ServeHTTP(w, r)
			return
		}
		io.WriteString(w, "the rest of the application")
	}))
	defer server.Close()

	url := server.URL + streams.Root() + "orders/17"
	create, _ := http.NewRequest(http.MethodPut, url, nil)
	create.Header.Set("Content-Type", "application/json")
	if _, err := http.DefaultClient.Do(create); err != nil {
		log.Fatal(err)
	}
	for _, event := range []string{`{"state":"paid"}`, `{"state":"sent"}`} {
		if _, err := http.Post(url, "application/json", strings.NewReader(event)); err != nil {
			log.Fatal(err)
		}
	}
	answer, err := http.Get(url)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", body)
	// Output:
	// [{"state":"paid"},
	// {"state":"sent"}]
}

// A server of its own, until the context ends.
func ExampleServer_Serve() {
	ctx, stop := context.WithCancel(context.Background())
	streams, err := durablestreams.Open("", &durablestreams.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	stop() // in earnest: by a signal
	fmt.Println(streams.Serve(ctx, listener))
	// Output: <nil>
}
