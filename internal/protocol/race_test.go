package protocol_test

import (
	"testing"
	"testing/synctest"
	"time"

	"durablestreams/internal/dstest/fakestore"
	"durablestreams/stream"
)

// meddler changes a stream at the worst moment: after the state of a source was
// told, and before a watch begins.
type meddler struct {
	*fakestore.Store
	afterStat, beforeWatch, beforeRead func()
}

func (m *meddler) Stat(path stream.Path, touch bool) (stream.Snapshot, error) {
	snap, err := m.Store.Stat(path, touch)
	if f := m.afterStat; f != nil && path == "s" {
		m.afterStat = nil
		f()
	}
	return snap, err
}

func (m *meddler) Watch(snap stream.Snapshot, wake func()) func() {
	if f := m.beforeWatch; f != nil {
		m.beforeWatch = nil
		f()
	}
	return m.Store.Watch(snap, wake)
}

func (m *meddler) Read(snap stream.Snapshot, from, to uint64) stream.Blocks {
	if f := m.beforeRead; f != nil {
		m.beforeRead = nil
		f()
	}
	return m.Store.Read(snap, from, to)
}

func newMeddled(t *testing.T) (*client, *meddler) {
	m := &meddler{Store: &fakestore.Store{}}
	return newClientOn(t, nil, m, m.Store), m
}

// A change between the first look and the watch wakes nobody, so it must be
// seen by the look that comes after.
func TestNothingFallsBetweenStatAndWatch(t *testing.T) {
	for name, change := range map[string]func(c *client){
		"data":   func(c *client) { c.do("POST a", textType, "=x") },
		"close":  func(c *client) { c.do("POST a", closedTrue) },
		"delete": func(c *client) { c.do("DELETE a") },
		"drain":  func(c *client) { c.core.Drain() },
	} {
		for _, mode := range []string{"long-poll", "sse"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, m := newMeddled(t)
					c.do("PUT a", textType).want(201)
					m.beforeWatch = func() { change(c) }
					begin := time.Now()
					l := c.open("GET a?offset=-1&live=" + mode)
					act := l.next()
					if time.Since(begin) != 0 || act.Response == nil {
						t.Fatalf("after %v: %+v", time.Since(begin), act)
					}
					if name == "delete" {
						c.read("first", act.Response).want(404)
					} else if mode == "long-poll" && act.Response.Status == 204 && name == "data" {
						t.Error("the data are missing")
					} else if mode == "sse" {
						data, ctl := sse(t, act.Frame)
						if data != map[string]string{"data": "x"}[name] || ctl.StreamClosed != (name == "close") {
							t.Errorf("%q %+v", data, ctl)
						}
					}
					l.feed.Close()
					if c.store.Watches() != 0 {
						t.Error("the watch goes on")
					}
				})
			})
		}
	}
}

// The tail of a source is the tail when the fork is made; a source that was
// replaced is another stream.
func TestForkOfAChangingSource(t *testing.T) {
	c, m := newMeddled(t)
	c.do("PUT s", textType, "=a").want(201)
	m.afterStat = func() { c.do("POST s", textType, "=b") }
	c.do("PUT f", from("s"), "=!").want(201)
	c.do("GET f").text("ab!")
	m.afterStat = func() { c.do("POST s", textType, "=c") }
	c.do("PUT g", from("s"), "Stream-Fork-Offset: -1", "Stream-Fork-Sub-Offset: 1").want(201)
	c.do("GET g").text("a")
	c.do("PUT t", textType).want(201)
	for _, name := range []string{"f", "g"} {
		c.do("DELETE " + name).want(204)
	}
	m.afterStat = func() {
		c.do("DELETE s").want(204)
		c.do("PUT s", jsonType).want(201)
	}
	c.do("PUT h", from("s"), "={not json").want(404).code("fork_source_not_found")
}

// A stream that goes between the look and the read is as gone as any other.
func TestDeletedBeforeTheRead(t *testing.T) {
	c, m := newMeddled(t)
	remove := func() { c.do("DELETE a").want(204) }
	replace := func() {
		remove()
		c.do("PUT a", jsonType).want(201)
	}
	for _, query := range []string{"", "?offset=-1&live=long-poll", "?offset=-1&live=sse"} {
		for _, change := range []func(){remove, replace} {
			c.do("DELETE a")
			c.do("PUT a", textType, "=x").want(201)
			m.beforeRead = change
			c.do("GET a" + query).want(404)
		}
	}
	c.do("DELETE a")
	c.do("PUT a", textType, "=x").want(201)
	l := c.open("GET a?offset=-1&live=sse")
	l.next()
	c.do("POST a", textType, "=y").want(204)
	m.beforeRead = remove
	if act := l.next(); !act.Done || len(act.Frame) > 0 || c.store.Watches() != 0 {
		t.Errorf("%+v", act)
	}
}
