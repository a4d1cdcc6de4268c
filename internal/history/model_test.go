package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/history"
)

type op = history.Op

// at says when an operation was sent and when its answer came, in milliseconds;
// nothing came if ret is 0.
func at(call, ret int64, o op) *op {
	const ms = int64(time.Millisecond)
	o.Call, o.Begin, o.Return, o.End = call*ms, call*ms, ret*ms, ret*ms
	if o.Path == "" {
		o.Path = "f/a"
	}
	return &o
}

// offset is the offset of a position in the n-th stream.
func offset(pos, n int) string { return fmt.Sprintf("%016d_%012x0000", pos, n) }

const text = "text/plain"

func put(n int, body string) op {
	return op{Kind: history.Create, Ask: history.Ask{Type: text, Body: history.Bytes(body)},
		Answer: history.Answer{Status: 201, Type: text, Next: offset(len(body), n)}}
}

func add(body string, end, n int) op {
	return op{Kind: history.Append, Ask: history.Ask{Type: text, Body: history.Bytes(body)},
		Answer: history.Answer{Status: 204, Next: offset(end, n)}}
}

// unanswered is an operation whose answer got lost.
func unanswered(o op) op {
	o.Answer = history.Answer{}
	return o
}

// refused is an operation with another answer.
func refused(o op, status int, code string) op {
	o.Answer = history.Answer{Status: status, Code: code}
	return o
}

func get(from, data string, end, n int) op {
	return op{Kind: history.Read, Ask: history.Ask{From: from},
		Answer: history.Answer{Status: 200, Type: text, Data: history.Bytes(data), Next: offset(end, n), UpToDate: true}}
}

func page(o op) op {
	o.UpToDate = false
	return o
}

func closed(o op) op {
	o.Answer.Closed = true
	return o
}

func closing(o op) op {
	o.Ask.Close = true
	return closed(o)
}

func del() op { return op{Kind: history.Delete, Answer: history.Answer{Status: 204}} }

func on(path string, o op) op {
	o.Path = path
	return o
}

// produced is an append of producer p that was taken for new.
func produced(o op, epoch, seq int64) op {
	o.Ask.Producer = &history.Producer{ID: "p", Epoch: epoch, Seq: seq}
	o.Status, o.ProducerEpoch, o.ProducerSeq = 200, fmt.Sprint(epoch), fmt.Sprint(seq)
	return o
}

// again is the answer to a duplicate when highest was accepted last.
func again(o op, highest int64, end, n int) op {
	o.Status, o.ProducerSeq, o.Next = 204, fmt.Sprint(highest), offset(end, n)
	return o
}

func forked(point string, sub int, end, n int) op {
	return on("f/b", op{Kind: history.Create, Ask: history.Ask{Source: "f/a", Point: point, Sub: sub},
		Answer: history.Answer{Status: 201, Type: text, Next: offset(end, n)}})
}

func living(o op, seconds int64) op {
	o.Ask.TTL = &seconds
	return o
}

func seq(o op, s string) op {
	o.Ask.Seq = s
	return o
}

// poll is a long-poll that ended empty.
func poll(from string, end, n int) op {
	o := get(from, "", end, n)
	o.Ask.Live, o.Status, o.Type = "long-poll", 204, ""
	return o
}

var gone = refused(get("-1", "", 0, 0), 404, "not_found")

// Histories that a server may and may not make.
func TestModel(t *testing.T) {
	for _, c := range []struct {
		name string
		ok   bool
		ops  []*op
	}{
		{"append and read", true, []*op{at(1, 2, put(1, "a")), at(3, 4, add("b", 2, 1)), at(5, 6, get("-1", "ab", 2, 1))}},
		{"acknowledged and not there", false, []*op{at(1, 2, put(1, "a")), at(3, 4, add("b", 2, 1)), at(5, 6, get("-1", "a", 1, 1))}},
		{"there twice", false, []*op{at(1, 2, put(1, "a")), at(3, 4, add("b", 2, 1)), at(5, 6, get("-1", "abb", 3, 1))}},
		{"read before it was sent", false, []*op{at(1, 2, put(1, "a")), at(3, 4, get("-1", "ab", 2, 1)), at(5, 6, add("b", 2, 1))}},
		{"two at once, in the order of their offsets", true, []*op{at(1, 2, put(1, "")), at(3, 9, add("a", 2, 1)), at(4, 8, add("b", 1, 1)), at(10, 11, get("-1", "ba", 2, 1))}},
		{"two at once, in another order", false, []*op{at(1, 2, put(1, "")), at(3, 9, add("a", 2, 1)), at(4, 8, add("b", 1, 1)), at(10, 11, get("-1", "ab", 2, 1))}},
		{"an offset for two", false, []*op{at(1, 2, put(1, "")), at(3, 9, add("a", 1, 1)), at(4, 8, add("b", 1, 1))}},
		{"a read goes back", false, []*op{at(1, 2, put(1, "")), at(3, 20, add("a", 1, 1)), at(4, 5, get("-1", "a", 1, 1)), at(6, 7, get("-1", "", 0, 1))}},
		{"no end said", false, []*op{at(1, 2, put(1, "a")), at(3, 4, page(get("-1", "a", 1, 1)))}},
		{"a page", true, []*op{at(1, 2, put(1, "ab")), at(3, 4, page(get("-1", "a", 1, 1))), at(5, 6, get(offset(1, 1), "b", 2, 1))}},
		{"a page that skips", false, []*op{at(1, 2, put(1, "abc")), at(3, 4, page(get("-1", "a", 2, 1)))}},
		{"an empty page", false, []*op{at(1, 2, put(1, "ab")), at(3, 4, page(get("-1", "", 0, 1)))}},
		{"part of an answer", true, []*op{at(1, 2, put(1, "ab")), at(3, 4, op{Kind: history.Read, Answer: history.Answer{Status: 200, Data: "a", Part: true}})}},
		{"part of an answer with other bytes", false, []*op{at(1, 2, put(1, "ab")), at(3, 4, op{Kind: history.Read, Answer: history.Answer{Status: 200, Data: "b", Part: true}})}},

		{"unanswered and there", true, []*op{at(1, 2, put(1, "a")), at(3, 0, unanswered(add("b", 0, 0))), at(5, 6, get("-1", "ab", 2, 1))}},
		{"unanswered and not there", true, []*op{at(1, 2, put(1, "a")), at(3, 0, unanswered(add("b", 0, 0))), at(5, 6, get("-1", "a", 1, 1))}},
		{"unanswered and late", true, []*op{at(1, 2, put(1, "a")), at(3, 0, unanswered(add("b", 0, 0))), at(5, 6, add("c", 2, 1)), at(7, 8, get("-1", "acb", 3, 1))}},
		{"unanswered, seen and taken back", false, []*op{at(1, 2, put(1, "a")), at(3, 9, unanswered(add("b", 0, 0))), at(5, 6, get("-1", "ab", 2, 1)), at(10, 11, get("-1", "a", 1, 1))}},
		{"unanswered, after the end of its server", false, []*op{at(1, 2, put(1, "a")), at(3, 9, unanswered(add("b", 0, 0))), at(10, 11, get("-1", "a", 1, 1)), at(12, 13, get("-1", "ab", 2, 1))}},
		{"unanswered creation", true, []*op{at(1, 5, unanswered(put(0, "a"))), at(6, 7, get("-1", "a", 1, 1)), at(8, 9, add("b", 2, 1))}},
		{"unanswered deletion taken back", false, []*op{at(1, 2, put(1, "a")), at(3, 9, unanswered(del())), at(4, 5, gone), at(10, 11, get("-1", "a", 1, 1))}},

		{"a duplicate", true, []*op{at(1, 2, put(1, "")), at(3, 4, produced(add("a", 1, 1), 0, 0)), at(5, 6, again(produced(add("a", 1, 1), 0, 0), 0, 1, 1)), at(7, 8, get("-1", "a", 1, 1))}},
		{"a duplicate taken twice", false, []*op{at(1, 2, put(1, "")), at(3, 4, produced(add("a", 1, 1), 0, 0)), at(5, 6, produced(add("a", 2, 1), 0, 0))}},
		{"a duplicate that is none", false, []*op{at(1, 2, put(1, "")), at(5, 6, again(produced(add("a", 1, 1), 0, 0), 0, 0, 1))}},
		{"a duplicate of what was not answered", true, []*op{at(1, 2, put(1, "")), at(3, 4, unanswered(produced(add("a", 0, 0), 0, 0))), at(5, 6, again(produced(add("a", 0, 0), 0, 0), 0, 1, 1))}},
		{"a duplicate, and the original is gone", false, []*op{at(1, 2, put(1, "")), at(3, 4, unanswered(produced(add("a", 0, 0), 0, 0))), at(5, 6, again(produced(add("a", 0, 0), 0, 0), 0, 1, 1)), at(7, 8, get("-1", "", 0, 1))}},
		{"a gap taken", false, []*op{at(1, 2, put(1, "")), at(3, 4, produced(add("a", 1, 1), 0, 0)), at(5, 6, produced(add("b", 2, 1), 0, 2))}},
		{"an old epoch taken", false, []*op{at(1, 2, put(1, "")), at(3, 4, produced(add("a", 1, 1), 1, 0)), at(5, 6, produced(add("b", 2, 1), 0, 0))}},
		{"a new epoch", true, []*op{at(1, 2, put(1, "")), at(3, 4, produced(add("a", 1, 1), 0, 0)), at(5, 6, produced(add("b", 2, 1), 1, 0))}},
		{"Stream-Seq goes up", true, []*op{at(1, 2, put(1, "")), at(3, 4, seq(add("a", 1, 1), "1")), at(5, 6, seq(add("b", 2, 1), "2"))}},
		{"Stream-Seq stays", false, []*op{at(1, 2, put(1, "")), at(3, 4, seq(add("a", 1, 1), "1")), at(5, 6, seq(add("b", 2, 1), "1"))}},

		{"closed", true, []*op{at(1, 2, put(1, "")), at(3, 4, closing(add("a", 1, 1))), at(5, 6, closed(get("-1", "a", 1, 1)))}},
		{"closed and open again", false, []*op{at(1, 2, put(1, "")), at(3, 4, closing(add("a", 1, 1))), at(5, 6, get("-1", "a", 1, 1))}},
		{"append after the close", false, []*op{at(1, 2, put(1, "")), at(3, 4, closing(add("a", 1, 1))), at(5, 6, add("b", 2, 1))}},
		{"closed on a page before the end", false, []*op{at(1, 2, put(1, "")), at(3, 4, closing(add("ab", 2, 1))), at(5, 6, closed(page(get("-1", "a", 1, 1))))}},

		{"deleted", true, []*op{at(1, 2, put(1, "a")), at(3, 4, del()), at(5, 6, gone)}},
		{"deleted and there", false, []*op{at(1, 2, put(1, "a")), at(3, 4, del()), at(5, 6, get("-1", "a", 1, 1))}},
		{"another stream at the path", true, []*op{at(1, 2, put(1, "a")), at(3, 4, del()), at(5, 6, put(2, "b")), at(7, 8, get("-1", "b", 1, 2)), at(9, 10, refused(get(offset(1, 1), "", 0, 0), 410, "offset_gone"))}},
		{"another stream, an old offset served", false, []*op{at(1, 2, put(1, "a")), at(3, 4, del()), at(5, 6, put(2, "b")), at(9, 10, get(offset(1, 1), "", 1, 2))}},
		{"another stream, its offsets those of the old one", false, []*op{at(1, 2, put(1, "a")), at(3, 4, del()), at(5, 6, put(1, "b"))}},

		{"a fork", true, []*op{at(1, 2, put(1, "abc")), at(3, 4, forked(offset(2, 1), 0, 2, 1)), at(5, 6, on("f/b", get("-1", "ab", 2, 1))), at(7, 8, on("f/b", add("x", 3, 2)))}},
		{"a fork with a byte more", false, []*op{at(1, 2, put(1, "abc")), at(3, 4, forked(offset(2, 1), 0, 3, 1))}},
		{"a fork at a sub-offset", true, []*op{at(1, 2, put(1, "abc")), at(3, 4, forked("-1", 2, 2, 1)), at(5, 6, on("f/b", get("-1", "ab", 2, 1)))}},
		{"a fork sees what came after it", false, []*op{at(1, 2, put(1, "a")), at(3, 4, forked("", 0, 1, 1)), at(5, 6, add("b", 2, 1)), at(7, 8, on("f/b", get("-1", "ab", 2, 1)))}},
		{"a fork lets its source live", true, []*op{at(1, 2, put(1, "a")), at(3, 4, forked("", 0, 1, 1)), at(5, 6, del()), at(7, 8, refused(get("-1", "", 0, 0), 410, "gone")),
			at(9, 10, on("f/b", get("-1", "a", 1, 1))), at(11, 12, on("f/b", del())), at(13, 14, gone)}},
		{"a source that is not let go", false, []*op{at(1, 2, put(1, "a")), at(3, 4, forked("", 0, 1, 1)), at(5, 6, del()), at(7, 8, on("f/b", del())), at(9, 10, refused(get("-1", "", 0, 0), 410, "gone"))}},
		{"a source that goes with a living fork", false, []*op{at(1, 2, put(1, "a")), at(3, 4, forked("", 0, 1, 1)), at(5, 6, del()), at(7, 8, gone)}},
		{"a fork of another family's history", true, []*op{at(1, 2, put(1, "a")), at(3, 4, on("g/a", put(2, "b"))), at(5, 6, on("g/a", get("-1", "b", 1, 2)))}},

		{"a lifetime that is over", true, []*op{at(1, 2, living(put(1, "a"), 1)), at(1100, 1101, gone)}},
		{"a lifetime that is not over", false, []*op{at(1, 2, living(put(1, "a"), 1)), at(900, 901, gone)}},
		{"beyond a lifetime", false, []*op{at(1, 2, living(put(1, "a"), 1)), at(1100, 1101, get("-1", "a", 1, 1))}},
		{"a lifetime renewed by a read", true, []*op{at(1, 2, living(put(1, "a"), 1)), at(800, 801, get("-1", "a", 1, 1)), at(1100, 1101, get("-1", "a", 1, 1))}},
		{"a lifetime that a read did not renew", false, []*op{at(1, 2, living(put(1, "a"), 1)), at(800, 801, get("-1", "a", 1, 1)), at(1100, 1101, gone)}},

		{"a long-poll without news", true, []*op{at(1, 2, put(1, "a")), at(12, 13, poll(offset(1, 1), 1, 1)), at(14, 15, add("b", 2, 1))}},
		{"a long-poll that has missed news", false, []*op{at(1, 2, put(1, "a")), at(3, 4, add("b", 2, 1)), at(12, 13, poll(offset(1, 1), 1, 1))}},
		{"a failure", false, []*op{at(1, 2, put(1, "a")), at(3, 4, refused(get("-1", "", 0, 0), 500, "internal"))}},
		{"busy", true, []*op{at(1, 2, put(1, "a")), at(3, 4, refused(add("b", 0, 0), 503, "busy")), at(5, 6, get("-1", "a", 1, 1))}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			v := history.Check(c.ops, time.Minute)
			if ok := len(v.Failures) == 0; ok != c.ok || len(v.Undecided) > 0 {
				t.Errorf("explained: %v, want %v; undecided %q\n%v", ok, c.ok, v.Undecided, v.Failures)
			}
		})
	}
}
