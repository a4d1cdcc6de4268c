package conformance

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSafe is 2^53-1, the largest epoch and sequence number.
const maxSafe = 1<<53 - 1

func producerTests() []test {
	return []test{
		{"new data 200, duplicates 204 with the highest sequence", producerDuplicates},
		{"B32 a gap is refused with numbers and poisons nothing", producerGap},
		{"B31 a failed append does not advance the sequence", producerFailures},
		{"epochs fence and restart", producerEpochs},
		{"an unknown producer starts at 0", producerUnknown},
		{"B34 all three headers or none", producerHeaders},
		{"N23 numbers: digits up to 2^53-1", producerNumbers},
		{"B35 doubled and monstrous headers", producerMonsters},
		{"producers and streams do not mix", producerScope},
		{"a JSON batch is one sequence number", producerBatch},
		{"B36 a closed stream tells producers all they need", producerClosed},
		{"the producer that closed may repeat itself, nobody else", producerCloser},
	}
}

func producerDuplicates(c *client) {
	p := c.create("dup", text, "")
	var tails []string
	for seq := range int64(4) {
		r := c.post(p, text, strconv.FormatInt(seq, 10), producer("p", 0, seq)...).is(200)
		r.header("Producer-Epoch", "0").header("Producer-Seq", strconv.FormatInt(seq, 10)).body("")
		tails = append(tails, r.tail())
		for old := range seq + 1 {
			c.post(p, text, "other content", producer("p", 0, old)...).is(204).header("Producer-Epoch", "0").header("Producer-Seq", strconv.FormatInt(seq, 10))
		}
	}
	c.get(p, fromStart).is(200).body("0123").header("Stream-Next-Offset", tails[3])
	for i := 1; i < len(tails); i++ {
		if tails[i] <= tails[i-1] {
			c.Errorf("tails %q do not grow", tails)
		}
	}
}

func producerGap(c *client) {
	p := c.create("gap", text, "")
	gap := func(seq, expected int64) {
		c.Helper()
		c.post(p, text, "no", producer("p", 0, seq)...).refused(409).
			header("Producer-Expected-Seq", strconv.FormatInt(expected, 10)).header("Producer-Received-Seq", strconv.FormatInt(seq, 10)).without("Stream-Closed")
	}
	gap(1, 0)
	gap(maxSafe, 0)
	for seq := range int64(3) {
		c.post(p, text, strconv.FormatInt(seq, 10), producer("p", 0, seq)...).is(200)
		gap(seq+2, seq+1)
		gap(seq+100, seq+1)
	}
	c.get(p, fromStart).is(200).body("012")
}

func producerFailures(c *client) {
	p := c.create("fail", jsonType, "")
	c.post(p, jsonType, "1", "Stream-Seq", "m").is(204)
	for seq := range int64(2) {
		c.post(p, jsonType, "{bad", producer("p", 0, seq)...).refused(400)
		c.post(p, jsonType, "[]", producer("p", 0, seq)...).refused(400)
		c.post(p, jsonType, "", producer("p", 0, seq)...).refused(400)
		c.post(p, text, "1", producer("p", 0, seq)...).refused(409)
		c.post(p, jsonType, "2", producer("p", 0, seq, "Stream-Seq", "a")...).refused(409)
		c.post(p, jsonType, `{"ok":1}`, producer("p", 0, seq)...).is(200)
	}
	c.same("messages", c.messages(p), []string{"1", `{"ok":1}`, `{"ok":1}`})
}

func producerEpochs(c *client) {
	p := c.create("epoch", text, "")
	c.post(p, text, "a", producer("p", 0, 0)...).is(200)
	c.post(p, text, "b", producer("p", 0, 1)...).is(200)
	c.post(p, text, "no", producer("p", 1, 1)...).refused(400)
	c.post(p, text, "no", producer("p", 7, 3)...).refused(400)
	c.post(p, text, "c", producer("p", 0, 2)...).is(200)
	c.post(p, text, "d", producer("p", 5, 0)...).is(200).header("Producer-Epoch", "5").header("Producer-Seq", "0")
	for _, seq := range []int64{0, 1, 2, 3, 99} {
		c.post(p, text, "no", producer("p", 0, seq)...).refused(403).header("Producer-Epoch", "5")
		c.post(p, text, "no", producer("p", 4, seq)...).refused(403).header("Producer-Epoch", "5")
	}
	c.post(p, text, "no", producer("p", 5, 0)...).is(204)
	c.post(p, text, "e", producer("p", 5, 1)...).is(200)
	c.post(p, text, "no", producer("p", 5, 3)...).refused(409).header("Producer-Expected-Seq", "2").header("Producer-Received-Seq", "3")
	c.get(p, fromStart).is(200).body("abcde")
}

func producerUnknown(c *client) {
	p := c.create("unknown", text, "")
	for _, epoch := range []int64{0, 1, 9} {
		id := fmt.Sprint("p", epoch)
		c.post(p, text, "no", producer(id, epoch, 4)...).refused(409).header("Producer-Expected-Seq", "0").header("Producer-Received-Seq", "4")
		c.post(p, text, "x", producer(id, epoch, 0)...).is(200).header("Producer-Epoch", strconv.FormatInt(epoch, 10))
	}
	c.get(p, fromStart).is(200).body("xxx")
}

func producerHeaders(c *client) {
	p := c.create("headers", text, "")
	names := []string{"Producer-Id", "Producer-Epoch", "Producer-Seq"}
	values := []string{"p", "0", "0"}
	for set := 1; set < 7; set++ {
		var partial, empty []string
		for i, name := range names {
			if set&(1<<i) != 0 {
				partial = append(partial, name, values[i])
				empty = append(empty, name, values[i])
			} else {
				empty = append(empty, name, "")
			}
		}
		c.post(p, text, "no", partial...).refused(400)
		c.post(p, text, "no", empty...).refused(400)
		c.post(p, "", "", closing(partial...)...).refused(400)
	}
	allEmpty := []string{"Producer-Id", "", "Producer-Epoch", "", "Producer-Seq", ""}
	c.post(p, text, "no", allEmpty...).refused(400)
	c.post(p, text, "no", allEmpty...).refused(400)
	c.get(p, fromStart).is(200).body("").without("Stream-Closed")
}

func producerNumbers(c *client) {
	p := c.create("numbers", text, "")
	for _, bad := range []string{"-1", "+1", "-0", "1.0", "1e3", "0x1", "abc", "1 0", "∞", "9007199254740992", "9223372036854775808", "18446744073709551616", "1" + strings.Repeat("0", 60)} {
		c.post(p, text, "no", "Producer-Id", "p", "Producer-Epoch", bad, "Producer-Seq", "0").refused(400)
		c.post(p, text, "no", "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", bad).refused(400)
	}
	c.get(p, fromStart).is(200).body("")
	c.post(p, text, "a", producer("p", 0, 0)...).is(200)
	c.post(p, text, "b", producer("p", maxSafe, 0)...).is(200).header("Producer-Epoch", "9007199254740991")
	c.post(p, text, "no", producer("p", maxSafe-1, 0)...).refused(403).header("Producer-Epoch", "9007199254740991")
	c.post(p, text, "no", producer("p", maxSafe, maxSafe)...).refused(409).header("Producer-Received-Seq", "9007199254740991")
	c.post(p, text, "c", producer("p", maxSafe, 1)...).is(200)
	c.get(p, fromStart).is(200).body("abc")
}

func producerMonsters(c *client) {
	p := c.create("monsters", text, "")
	for i, name := range []string{"Producer-Id", "Producer-Epoch", "Producer-Seq"} {
		c.post(p, text, "no", producer("p", 0, 0, name, []string{"q", "0", "0"}[i])...).refused(400)
	}
	c.post(p, text, "no", producer(strings.Repeat("p", 7000), 0, 0)...).refused(400, 431)
	c.get(p, fromStart).is(200).body("")
	for _, id := range []string{"a\tb", "caf\xe9", "ünïcode", "a b", `"quoted"`, strings.Repeat("p", 100), "0", "null"} {
		r := c.post(p, text, "x", producer(id, 0, 0)...).is(200, 400)
		if r.Status == 200 {
			c.post(p, text, "no", producer(id, 0, 0)...).is(204)
		}
	}
}

func producerScope(c *client) {
	p, q := c.create("p", text, ""), c.create("q", text, "")
	for seq := range int64(3) {
		c.post(p, text, "a", producer("a", 0, seq)...).is(200)
		c.post(p, text, "b", producer("b", 2, seq)...).is(200)
		c.post(p, text, "A", producer("A", 0, seq)...).is(200)
		c.post(p, text, "-").is(204)
	}
	c.post(q, text, "no", producer("a", 0, 3)...).refused(409).header("Producer-Expected-Seq", "0")
	c.post(q, text, "x", producer("a", 0, 0)...).is(200)
	c.get(p, fromStart).is(200).body("abA-abA-abA-")
	// A new stream at the path knows no producer of the old one.
	c.delete(p).is(204)
	c.put(p, text, "").is(201)
	c.post(p, text, "no", producer("a", 0, 3)...).refused(409).header("Producer-Expected-Seq", "0")
	c.post(p, text, "y", producer("b", 0, 0)...).is(200)
}

func producerBatch(c *client) {
	p := c.create("batch", jsonType, "")
	c.post(p, jsonType, "[1,2,3]", producer("p", 0, 0)...).is(200)
	c.post(p, jsonType, "[1,2,3]", producer("p", 0, 0)...).is(204)
	c.post(p, jsonType, "[4]", producer("p", 0, 1)...).is(200)
	c.same("messages", c.messages(p), []string{"1", "2", "3", "4"})
}

func producerClosed(c *client) {
	p := c.create("closed", text, "", closing()...)
	tail := c.head(p).tail()
	c.post(p, jsonType, "{}").refused(409).header("Stream-Closed", "true").header("Stream-Next-Offset", tail)
	for _, seq := range []int64{0, 1, 17} {
		want := strconv.FormatInt(seq, 10)
		for _, r := range []*reply{
			c.post(p, "", "", closing(producer("p", 0, seq)...)...),
			c.post(p, text, "x", closing(producer("p", 0, seq)...)...),
			c.post(p, text, "x", producer("p", 0, seq)...),
		} {
			r.refused(409).header("Stream-Closed", "true").header("Stream-Next-Offset", tail).header("Producer-Expected-Seq", want)
		}
	}
}

func producerCloser(c *client) {
	for _, last := range []string{"", "end"} {
		p := c.create("closer", text, "")
		c.post(p, text, "a", producer("p", 1, 0)...).is(200)
		ctype, want := "", 204
		if last != "" {
			ctype, want = text, 200
		}
		r := c.post(p, ctype, last, closing(producer("p", 1, 1)...)...).is(want).header("Stream-Closed", "true").header("Producer-Epoch", "1").header("Producer-Seq", "1")
		for range 2 {
			c.post(p, ctype, last, closing(producer("p", 1, 1)...)...).is(204).header("Stream-Closed", "true").header("Stream-Next-Offset", r.tail()).header("Producer-Seq", "1")
		}
		for _, other := range []*reply{
			c.post(p, text, "no", closing(producer("p", 1, 2)...)...),
			c.post(p, text, "no", producer("p", 1, 2)...),
			c.post(p, text, "no", closing(producer("q", 1, 1)...)...),
			c.post(p, text, "no", closing(producer("p", 2, 0)...)...),
			c.post(p, text, "no", closing()...),
		} {
			other.refused(409).header("Stream-Closed", "true").header("Stream-Next-Offset", r.tail())
		}
		c.post(p, text, "no", producer("p", 1, 0)...).is(204, 409)
		c.post(p, "", "", closing()...).is(204)
		c.get(p, fromStart).is(200).body("a"+last).header("Stream-Closed", "true")
	}
}
