package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"durablestreams"
	"durablestreams/client"
	"durablestreams/stream"
)

// example starts a server and gives a client for it.
func example() (c *client.Client, stop func()) {
	streams, err := durablestreams.Open("", &durablestreams.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(streams.Handler())
	if c, err = client.New(server.URL+streams.Root(), nil); err != nil {
		log.Fatal(err)
	}
	return c, func() {
		server.Close()
		_ = streams.Shutdown(context.Background())
	}
}

type order struct {
	ID    int    `json:"id"`
	State string `json:"state"`
}

// Create a stream of JSON, append to it and follow it to its end.
func Example() {
	c, stop := example()
	defer stop()
	ctx := context.Background()

	orders := c.Stream("orders")
	if _, _, err := orders.Create(ctx, &client.CreateOptions{ContentType: "application/json"}); err != nil {
		log.Fatal(err)
	}
	if _, err := client.AppendJSON(ctx, orders, order{1, "paid"}, order{2, "paid"}); err != nil {
		log.Fatal(err)
	}
	for batch, err := range client.ReadJSON[order](ctx, orders, &client.ReadOptions{Live: client.Follow}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, o := range batch.Messages {
			fmt.Println(o.ID, o.State)
		}
		if batch.UpToDate && !batch.Closed {
			// Somebody else goes on while this reader waits.
			if _, err := orders.Append(ctx, []byte(`{"id":1,"state":"sent"}`), &client.AppendOptions{Close: true}); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// 1 paid
	// 2 paid
	// 1 sent
}

// A reader that keeps its offset goes on where it was.
func ExampleStream_Read() {
	c, stop := example()
	defer stop()
	ctx := context.Background()
	text := c.Stream("text")
	if _, _, err := text.Create(ctx, &client.CreateOptions{ContentType: "text/plain", Data: []byte("one ")}); err != nil {
		log.Fatal(err)
	}
	offset := client.Start
	for _, more := range []string{"two ", "three "} {
		for batch, err := range text.Read(ctx, &client.ReadOptions{Offset: offset}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s", batch.Data)
			offset = batch.Offset // keep it once the data have been dealt with
		}
		if _, err := text.Append(ctx, []byte(more), nil); err != nil {
			log.Fatal(err)
		}
	}
	// Output: one two
}

// A producer's items arrive once and in order, whatever happens to its requests.
func ExampleProducer() {
	c, stop := example()
	defer stop()
	ctx := context.Background()
	tokens := c.Stream("tokens")
	if _, _, err := tokens.Create(ctx, &client.CreateOptions{ContentType: "text/plain"}); err != nil {
		log.Fatal(err)
	}
	p, err := tokens.Producer(ctx, &client.ProducerOptions{ID: "model-7", AutoClaim: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, token := range []string{"Once", " upon", " a", " time"} {
		if err := p.Append(ctx, []byte(token)); err != nil { // waits only when too much is under way
			log.Fatal(err)
		}
	}
	if err := p.CloseStream(ctx, []byte(".")); err != nil { // or Flush, or Close
		log.Fatal(err)
	}
	for batch, err := range tokens.Read(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %v\n", batch.Data, batch.Closed)
	}
	// Output: Once upon a time. true
}

// Refusals have a kind, and details of their own.
func ExampleError() {
	c, stop := example()
	defer stop()
	ctx := context.Background()
	s := c.Stream("notes")
	if _, err := s.Head(ctx); errors.Is(err, stream.NotFound) {
		fmt.Println("there is no such stream")
	}
	info, _, err := s.Create(ctx, &client.CreateOptions{ContentType: "text/plain", Data: []byte("all"), Closed: true})
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Append(ctx, []byte("more"), nil)
	if refused, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(refused.Kind, refused.Status, refused.Tail == info.Tail)
	}
	// Output:
	// there is no such stream
	// stream closed 409 true
}

// A fork goes its own way from some point of its source on.
func ExampleStream_Fork() {
	c, stop := example()
	defer stop()
	ctx := context.Background()
	chat, other := c.Stream("chat"), c.Stream("chat-2")
	if _, _, err := chat.Create(ctx, &client.CreateOptions{ContentType: "application/json"}); err != nil {
		log.Fatal(err)
	}
	asked, err := client.AppendJSON(ctx, chat, "a question")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.AppendJSON(ctx, chat, "an answer"); err != nil {
		log.Fatal(err)
	}
	if _, _, err := other.Fork(ctx, chat, &client.ForkOptions{Offset: asked.Tail, Data: []byte(`["another answer"]`)}); err != nil {
		log.Fatal(err)
	}
	for batch, err := range client.ReadJSON[string](ctx, other, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q\n", batch.Messages)
	}
	// Output: ["a question" "another answer"]
}

// A worker that is woken by a stream and does what is new in others.
func ExampleSubscription() {
	c, stop := example()
	defer stop()
	ctx := context.Background()
	for _, path := range []string{"wake", "users/ann"} {
		if _, _, err := c.Stream(path).Create(ctx, &client.CreateOptions{ContentType: "application/json"}); err != nil {
			log.Fatal(err)
		}
	}
	mail := c.Subscription("mail")
	if _, _, err := mail.Create(ctx, &client.SubscriptionConfig{Pattern: "users/*", WakeStream: "wake"}); err != nil {
		log.Fatal(err)
	}
	if _, err := client.AppendJSON(ctx, c.Stream("users/ann"), "signed up"); err != nil {
		log.Fatal(err)
	}
	claim, err := mail.Claim(ctx, "worker-1") // in earnest when the wake stream says so
	if err != nil {
		log.Fatal(err)
	}
	var acks []client.Ack
	for _, s := range claim.Streams {
		for batch, err := range client.ReadJSON[string](ctx, c.Stream(s.Path), &client.ReadOptions{Offset: s.Acked}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(s.Path, batch.Messages)
		}
		acks = append(acks, client.Ack{Stream: s.Path, Offset: s.Tail})
	}
	more, err := mail.Ack(ctx, claim, acks, true)
	fmt.Println(more, err)
	// Output:
	// users/ann [signed up]
	// false <nil>
}
