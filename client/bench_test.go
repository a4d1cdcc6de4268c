package client_test

import (
	"bytes"
	"testing"

	"durablestreams/client"
	"durablestreams/streamtest"
)

// BenchmarkProducer appends items of 100 bytes to a server in memory, in the same
// process.
func BenchmarkProducer(b *testing.B) {
	server := streamtest.Start(b, nil)
	c, err := client.New(server.URL(""), nil)
	if err != nil {
		b.Fatal(err)
	}
	s := c.Stream("bench")
	if _, _, err := s.Create(b.Context(), &client.CreateOptions{ContentType: "text/plain"}); err != nil {
		b.Fatal(err)
	}
	p, err := s.Producer(b.Context(), &client.ProducerOptions{ID: "p", AutoClaim: true})
	if err != nil {
		b.Fatal(err)
	}
	item := bytes.Repeat([]byte{'x'}, 100)
	b.SetBytes(int64(len(item)))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Append(b.Context(), item); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
