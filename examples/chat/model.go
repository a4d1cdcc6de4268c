package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// answer is the model: it says its words one after the other, and stops when ctx ends.
// Put a real one here; what it takes is a prompt, and what it gives are pieces of text.
func answer(ctx context.Context, prompt string, pace time.Duration) words {
	said := fmt.Sprintf(text, len(strings.Fields(prompt)), prompt)
	return func(yield func(string) bool) {
		for word := range strings.SplitAfterSeq(said, " ") {
			select {
			case <-time.After(pace):
			case <-ctx.Done():
				return
			}
			if !yield(word) {
				return
			}
		}
	}
}

const text = `You have asked in %d words: “%s”

I am a small model with one answer, but I take my time over it. Each of these words is appended to a stream at the moment it is made, and the stream is on the disk before you see it. ` +
	`So nothing depends on the page you are looking at: reload it now, and it shows what is there and goes on from that place. Open the same address in a second tab, or in another browser, and it says the same. ` +
	`Press Stop, in whichever tab you like: that closes the stream, the next word that I append is refused, and so I notice that nobody wants to hear more. ` +
	`And if the server should lose its power in the middle of a sentence, the half of it that was there will be there still. This is the end of my answer.`
