package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

func raceTests() []test {
	return []test{
		{"B95 appends at once get offsets of their own", concurrentAppends},
		{"N21 the same tuple many times at once is stored once", sameTuple},
		{"a producer's requests out of order end in order", outOfOrder},
		{"B97 an append and a delete: no old data in a new stream", appendAndDelete},
		{"B77 forks and a delete at once", forkAndDelete},
		{"creates at once make one stream", concurrentCreates},
		{"appends and a close at once", appendAndCloseAtOnce},
		{"readers only ever see a prefix", prefixReaders},
		{"a fork taken among appends is a prefix", forkAmongAppends},
	}
}

// parallel makes n requests at once and gives the answers in the order of their
// numbers.
func (c *client) parallel(n int, request func(i int) *reply) []*reply {
	c.Helper()
	replies := make([]*reply, n)
	var running sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		running.Go(func() {
			<-start
			replies[i] = request(i)
		})
	}
	close(start)
	running.Wait()
	for _, r := range replies {
		if r.Err != nil {
			c.Fatalf("%s: %v", r.what, r.Err)
		}
	}
	return replies
}

func concurrentAppends(c *client) {
	for _, ctype := range []string{text, jsonType} {
		p := c.create("appends", ctype, "")
		const n = 50
		tails := map[string]string{}
		var order []string
		for i, r := range c.parallel(n, func(i int) *reply { return c.post(p, ctype, fmt.Sprintf(`"%02d"`, i)) }) {
			tail := r.is(204).tail()
			if before, ok := tails[tail]; ok {
				c.Errorf("messages %s and %02d share the offset %s", before, i, tail)
			}
			tails[tail] = fmt.Sprintf("%02d", i)
			order = append(order, tail)
		}
		slices.Sort(order)
		c.head(p).is(200).header("Stream-Next-Offset", order[n-1])
		want := ""
		for _, tail := range order {
			want += `"` + tails[tail] + `"`
		}
		got := ""
		if ctype == jsonType {
			got = strings.Join(c.messages(p), "")
		} else {
			got = c.content(p)
		}
		if got != want {
			c.Errorf("content %s, want %s by the offsets of the answers", got, want)
		}
	}
}

func sameTuple(c *client) {
	for round := range 5 {
		p := c.create("tuple", text, "")
		count := map[int]int{}
		for _, r := range c.parallel(20, func(int) *reply { return c.post(p, text, "once;", producer("p", 0, 0)...) }) {
			count[r.is(200, 204).Status]++
			r.header("Producer-Seq", "0").header("Producer-Epoch", "0")
		}
		if count[200] != 1 {
			c.Errorf("round %d: answers %v, want one 200", round, count)
		}
		c.get(p, fromStart).is(200).body("once;")
		count = map[int]int{}
		for _, r := range c.parallel(20, func(int) *reply { return c.post(p, text, "end", closing(producer("p", 0, 1)...)...) }) {
			count[r.is(200, 204).Status]++
			r.header("Stream-Closed", "true")
		}
		if count[200] != 1 {
			c.Errorf("round %d: closing answers %v, want one 200", round, count)
		}
		c.get(p, fromStart).is(200).body("once;end").header("Stream-Closed", "true")
	}
}

func outOfOrder(c *client) {
	p := c.create("order", text, "")
	const n = 12
	c.parallel(n, func(i int) *reply {
		for {
			r := c.post(p, text, fmt.Sprint(i, ";"), producer("p", 0, int64(i))...)
			if r.Err != nil || r.Status != 409 || c.Context().Err() != nil {
				return r
			}
		}
	})
	want := ""
	for i := range n {
		want += fmt.Sprint(i, ";")
	}
	c.get(p, fromStart).is(200).body(want)
}

func appendAndDelete(c *client) {
	for round := range 10 {
		p := c.create("delete", text, "")
		const n = 20
		replies := c.parallel(n+1, func(i int) *reply {
			if i == n/2 {
				return c.delete(p)
			}
			return c.post(p, text, "old;")
		})
		for i, r := range replies {
			if i == n/2 {
				r.is(204)
			} else {
				r.is(204, 404)
			}
		}
		c.get(p, fromStart).is(404)
		c.put(p, text, "").is(201)
		c.get(p, fromStart).is(200).body("")
		r := c.post(p, text, "new").is(204)
		if got := c.get(p, fromStart).is(200).body("new"); got.tail() != r.tail() {
			c.Errorf("round %d: tails %s and %s", round, got.tail(), r.tail())
		}
	}
}

func forkAndDelete(c *client) {
	for range 4 {
		s := c.create("source", text, "shared")
		const n = 30
		paths := make([]string, n)
		for i := range paths {
			paths[i] = c.path("fork")
		}
		replies := c.parallel(n+1, func(i int) *reply {
			if i == n {
				return c.delete(s)
			}
			return c.put(paths[i], text, "", c.fork(s)...)
		})
		replies[n].is(204)
		forks := 0
		for i, r := range replies[:n] {
			if r.is(201, 404, 409).Status == 201 {
				forks++
				c.get(paths[i], fromStart).is(200).body("shared")
			} else {
				c.head(paths[i]).is(404)
				paths[i] = ""
			}
		}
		want := 404
		if forks > 0 {
			want = 410
		}
		c.get(s, fromStart).is(want)
		created := slices.DeleteFunc(paths, func(p string) bool { return p == "" })
		for _, r := range c.parallel(len(created), func(i int) *reply { return c.delete(created[i]) }) {
			r.is(204)
		}
		c.get(s, fromStart).is(404)
		c.put(s, text, "").is(201)
	}
}

func concurrentCreates(c *client) {
	for range 5 {
		p := c.path("create")
		count := map[int]int{}
		for _, r := range c.parallel(20, func(i int) *reply { return c.put(p, text, fmt.Sprint(i, ";")) }) {
			count[r.is(200, 201).Status]++
		}
		if count[201] != 1 {
			c.Errorf("20 creates at once answered %v", count)
		}
		if got := c.content(p); strings.Count(got, ";") != 1 {
			c.Errorf("the stream begins with %s", short(got))
		}
		q := c.path("types")
		count = map[int]int{}
		for _, r := range c.parallel(20, func(i int) *reply { return c.put(q, []string{text, octet}[i%2], "") }) {
			count[r.is(200, 201, 409).Status]++
		}
		if count[201] != 1 || count[409] != 10 {
			c.Errorf("creates of two types answered %v", count)
		}
	}
}

func appendAndCloseAtOnce(c *client) {
	for round := range 10 {
		p := c.create("close", text, "")
		const n = 20
		replies := c.parallel(n, func(i int) *reply {
			if i%5 == 2 {
				return c.post(p, "", "", closing()...)
			}
			return c.post(p, text, fmt.Sprintf("%02d;", i))
		})
		end := c.head(p).is(200).header("Stream-Closed", "true").tail()
		got, taken := c.content(p), 0
		for i, r := range replies {
			switch {
			case i%5 == 2:
				r.is(204).header("Stream-Next-Offset", end)
			case r.is(204, 409).Status == 409:
				r.header("Stream-Closed", "true").header("Stream-Next-Offset", end)
			default:
				taken++
				if !strings.Contains(got, fmt.Sprintf("%02d;", i)) {
					c.Errorf("round %d: append %d was taken and is not in %s", round, i, got)
				}
			}
		}
		if len(got) != 3*taken {
			c.Errorf("round %d: %d appends taken, content %s", round, taken, got)
		}
	}
}

func prefixReaders(c *client) {
	p := c.create("prefix", jsonType, "")
	const n = 150
	var running sync.WaitGroup
	problems := make(chan string, 10)
	for i := range 6 {
		running.Go(func() {
			last := 0
			for last < n && c.Context().Err() == nil {
				query := fromStart
				if i%2 == 1 {
					query += longPoll
				}
				r := c.get(p, query)
				list, err := split(r.Body)
				if r.Status == 204 {
					continue
				}
				if err != nil || r.Status != 200 {
					problems <- fmt.Sprintf("status %d, %s: %v", r.Status, short(r.Body), err)
					return
				}
				for j, m := range list {
					if m != fmt.Sprint(j) {
						problems <- fmt.Sprintf("message %d is %s", j, m)
						return
					}
				}
				if len(list) < last {
					problems <- fmt.Sprintf("%d messages after %d", len(list), last)
					return
				}
				last = len(list)
			}
		})
	}
	for i := range n {
		c.add(p, jsonType, fmt.Sprint(i))
	}
	running.Wait()
	close(problems)
	for problem := range problems {
		c.Error(problem)
	}
}

func forkAmongAppends(c *client) {
	s := c.create("source", text, "")
	const n = 40
	forks := make([]string, n)
	for i := range forks {
		forks[i] = c.path("fork")
	}
	for i, r := range c.parallel(2*n, func(i int) *reply {
		if i%2 == 0 {
			return c.post(s, text, fmt.Sprintf("%02d;", i/2))
		}
		return c.put(forks[i/2], text, "!", c.fork(s)...)
	}) {
		r.is([]int{204, 201}[i%2])
	}
	whole := c.content(s)
	if len(whole) != 3*n {
		c.Errorf("the source holds %s", short(whole))
	}
	for _, f := range forks {
		if got := c.content(f); !strings.HasSuffix(got, "!") || !strings.HasPrefix(whole, strings.TrimSuffix(got, "!")) {
			c.Errorf("a fork holds %s, which is no prefix of %s", short(got), short(whole))
		}
	}
}
