package main

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log"
	"sync"
	"time"

	"durablestreams/client"
	"durablestreams/stream"
)

// Streams of this program:
//
//	chats/<chat>     JSON: the messages of a chat, one for each prompt
//	answers/<answer> text: one answer, closed when it is complete or stopped
//	running          JSON: the answers that this run has begun
const (
	chats   = "chats/"
	answers = "answers/"
	running = "running"
)

// keep is how long chats live that nobody reads.
const keep = 30 * 24 * time.Hour

// message is one prompt of a chat.
type message struct {
	Prompt string `json:"prompt"`
	Answer string `json:"answer"` // its stream
}

// words are what a model says, one after the other.
type words = iter.Seq[string]

// chat writes the streams. Its methods may be called by any number of goroutines.
type chat struct {
	streams *client.Client
	model   func(ctx context.Context, prompt string) words
	answers sync.WaitGroup // under way
}

// open makes a chat, if it is not there yet.
func (c *chat) open(ctx context.Context, id string) error {
	_, _, err := c.streams.Stream(chats+id).Create(ctx, &client.CreateOptions{ContentType: "application/json", TTL: keep})
	return err
}

// ask adds a prompt to a chat and has it answered, until ctx ends. Readers that see the
// message find the stream of its answer: so that comes first.
func (c *chat) ask(ctx context.Context, id, prompt string) error {
	m := message{prompt, answers + rand.Text()}
	if _, _, err := c.streams.Stream(m.Answer).Create(ctx, &client.CreateOptions{ContentType: "text/plain; charset=utf-8", TTL: keep}); err != nil {
		return err
	}
	if _, err := client.AppendJSON(ctx, c.streams.Stream(running), m.Answer); err != nil {
		return err
	}
	if _, err := client.AppendJSON(ctx, c.streams.Stream(chats+id), m); err != nil {
		return err
	}
	c.answers.Go(func() {
		if err := c.answer(ctx, m); err != nil {
			log.Printf("%s: %v", m.Answer, err)
		}
	})
	return nil
}

// answer appends the model's words as they come, each once whatever happens to
// requests, and closes the stream. It ends early when somebody else has closed it.
func (c *chat) answer(ctx context.Context, m message) error {
	producer, err := c.streams.Stream(m.Answer).Producer(ctx, &client.ProducerOptions{ID: "model"})
	if err != nil {
		return err
	}
	for word := range c.model(ctx, m.Prompt) {
		if err = producer.Append(ctx, []byte(word)); err != nil {
			break
		}
	}
	if err == nil || ctx.Err() != nil {
		var last []byte
		if ctx.Err() != nil {
			last = []byte(interrupted)
		}
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err = producer.CloseStream(finish, last)
	}
	if errors.Is(err, stream.Closed) {
		return nil // stopped
	}
	return err
}

const interrupted = " [interrupted]"

// stop ends an answer, whoever is writing it: the next append there is refused.
func (c *chat) stop(ctx context.Context, answer string) error {
	_, err := c.streams.Stream(answers + answer).Close(ctx)
	return err
}

// recover closes the answers that a former run has begun and not ended, since nobody
// will go on with them, and begins a new list. One run at a time may use a server.
func (c *chat) recover(ctx context.Context) error {
	list := c.streams.Stream(running)
	begun := func() error {
		_, _, err := list.Create(ctx, &client.CreateOptions{ContentType: "application/json"})
		return err
	}
	if err := begun(); err != nil {
		return err
	}
	for batch, err := range client.ReadJSON[string](ctx, list, nil) {
		if err != nil {
			return err
		}
		for _, answer := range batch.Messages {
			_, err := c.streams.Stream(answer).Append(ctx, []byte(interrupted), &client.AppendOptions{Close: true})
			if err != nil && !errors.Is(err, stream.Closed) && !errors.Is(err, stream.NotFound) {
				return err
			}
		}
	}
	if err := list.Delete(ctx); err != nil {
		return err
	}
	return begun()
}
