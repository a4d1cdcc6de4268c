package subscription_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"durablestreams/stream"
	"durablestreams/subscription"
)

// disk is what a crash leaves: streams and rows.
type disk struct {
	streams map[stream.Path]*fakeStream
	rows    map[string][]byte
	lastInc stream.Incarnation // no incarnation comes twice, crashes or not
}

func newDisk() *disk { return &disk{streams: map[stream.Path]*fakeStream{}, rows: map[string][]byte{}} }

type fakeStream struct {
	meta   *stream.Meta
	tail   uint64
	closed bool
	events []string          // JSON values that were appended as wake events
	epochs map[string]uint64 // of the producers
}

func (s *fakeStream) clone() *fakeStream {
	c := *s
	c.events, c.epochs = slices.Clone(s.events), maps.Clone(s.epochs)
	return &c
}

// engine is a small engine: what is decided is in memory, what is committed on the
// disk, batch by batch, and an observer sees it in the same order as the journal.
type engine struct {
	observer *subscription.Manager
	rnd      *rand.Rand
	disk     *disk

	slots    sync.Mutex // every stream's lock
	decided  map[stream.Path]*fakeStream
	interest map[stream.Path]interest
	damaged  map[stream.Path]bool
	listing  func()        // called by List when it has looked
	appends  atomic.Int64  // calls of AppendEvent
	slow     time.Duration // by which outcomes of AppendEvent are late

	mu     sync.Mutex
	open   []record
	held   bool // commits nothing
	busy   bool
	closed bool
	kick   chan struct{}
	dead   chan struct{}
}

type interest struct {
	version uint64
	yes     bool
}

// record is one change on its way to the disk.
type record struct {
	apply func(*disk)
	rows  []stream.Row
	done  func(error)
}

func newEngine(d *disk, observer *subscription.Manager, rnd *rand.Rand) *engine {
	e := &engine{observer: observer, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 0)), disk: d, decided: map[stream.Path]*fakeStream{}, interest: map[stream.Path]interest{},
		damaged: map[stream.Path]bool{}, kick: make(chan struct{}, 1), dead: make(chan struct{})}
	for path, s := range d.streams {
		e.decided[path] = s.clone()
	}
	go e.run()
	return e
}

// run commits whatever is open, some time after it was put.
func (e *engine) run() {
	for {
		select {
		case <-e.dead:
			return
		case <-e.kick:
		}
		e.mu.Lock()
		pause := time.Duration(e.rnd.IntN(3000)) * time.Microsecond
		e.mu.Unlock()
		select {
		case <-e.dead:
			return
		case <-time.After(pause):
		}
		e.commit()
	}
}

func (e *engine) commit() {
	e.mu.Lock()
	if e.held || e.closed {
		e.mu.Unlock()
		return
	}
	batch := e.open
	e.open = nil
	for _, r := range batch {
		if r.apply != nil {
			r.apply(e.disk)
		}
		for _, row := range r.rows {
			if row.Value == nil {
				delete(e.disk.rows, string(row.Key))
			} else {
				e.disk.rows[string(row.Key)] = row.Value
			}
		}
	}
	e.mu.Unlock()
	for _, r := range batch {
		if r.done != nil {
			r.done(nil)
		}
	}
}

func (e *engine) put(r record) {
	rows := slices.Clone(r.rows)
	for i := range rows { // the caller may use its memory again
		rows[i].Key, rows[i].Value = slices.Clone(rows[i].Key), slices.Clone(rows[i].Value)
	}
	r.rows = rows
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		if r.done != nil {
			go r.done(errDead)
		}
		return
	}
	e.open = append(e.open, r)
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

var errDead = &stream.Error{Kind: stream.ShuttingDown, Message: "the engine is gone"}

// crash ends the engine; what it has not committed is lost.
func (e *engine) crash() {
	e.mu.Lock()
	lost := e.open
	e.open, e.closed = nil, true
	e.mu.Unlock()
	close(e.dead)
	for _, r := range lost {
		if r.done != nil {
			r.done(errDead)
		}
	}
}

// close ends the engine after all is committed.
func (e *engine) close() {
	e.hold(false)
	e.commit()
	e.crash()
}

// hold stops or resumes commits.
func (e *engine) hold(hold bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = hold
	if !hold {
		select {
		case e.kick <- struct{}{}:
		default:
		}
	}
}

func (e *engine) setBusy(busy bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy = busy
}

// Ready implements subscription.Engine.
func (e *engine) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy {
		return &stream.Error{Kind: stream.Busy, Message: "busy"}
	}
	return nil
}

// PutRows implements subscription.Engine.
func (e *engine) PutRows(rows []stream.Row, done func(error)) { e.put(record{rows: rows, done: done}) }

// Rows implements subscription.Engine.
func (e *engine) Rows(prefix []byte, yield func(stream.Row) error) error {
	e.mu.Lock()
	rows := maps.Clone(e.disk.rows)
	e.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if strings.HasPrefix(key, string(prefix)) {
			if err := yield(stream.Row{Key: []byte(key), Value: rows[key]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// List implements subscription.Engine.
func (e *engine) List(prefix string, after stream.Path, yield func(stream.Snapshot) bool) error {
	e.mu.Lock()
	found := map[stream.Path]stream.Snapshot{}
	for path, s := range e.disk.streams {
		if strings.HasPrefix(string(path), prefix) && path > after {
			found[path] = stream.Snapshot{Meta: s.meta, Tail: s.tail}
		}
	}
	e.mu.Unlock()
	if e.listing != nil {
		e.listing()
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if !yield(found[path]) {
			break
		}
	}
	return nil
}

// Stat implements subscription.Engine.
func (e *engine) Stat(path stream.Path, _ bool) (stream.Snapshot, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s := e.disk.streams[path]; {
	case e.damaged[path]:
		return stream.Snapshot{}, &stream.Error{Kind: stream.Damaged}
	case s == nil:
		return stream.Snapshot{}, &stream.Error{Kind: stream.NotFound}
	default:
		return stream.Snapshot{Meta: s.meta, Tail: s.tail}, nil
	}
}

// decide puts a change of a stream that is locked.
func (e *engine) decide(c stream.Change, after *fakeStream, done func(error)) {
	if after == nil {
		delete(e.decided, c.Path)
	} else {
		e.decided[c.Path] = after.clone()
	}
	r := record{done: done, apply: func(d *disk) {
		if after == nil {
			delete(d.streams, c.Path)
		} else {
			d.streams[c.Path] = after
		}
	}}
	v := e.observer.Version()
	if e.interest[c.Path].version != v {
		e.interest[c.Path] = interest{v, v != 0 && e.observer.Interested(c.Path)}
	}
	once := false
	if v != 0 && e.interest[c.Path].yes {
		e.observer.Decided(c, func(rows []stream.Row) {
			if once {
				panic("put called twice")
			}
			once = true
			r.rows = rows
			e.put(r)
		})
	}
	if !once {
		e.put(r)
	}
}

// change carries a change out and waits until it is durable.
func (e *engine) change(f func(done func(error)) error) error {
	durable := make(chan error, 1)
	e.slots.Lock()
	err := f(func(err error) { durable <- err })
	e.slots.Unlock()
	if err != nil {
		return err
	}
	return <-durable
}

func (e *engine) create(path stream.Path, size uint64) error {
	return e.change(func(done func(error)) error {
		if e.decided[path] != nil {
			done(nil)
			return nil
		}
		e.disk.lastInc++
		s := &fakeStream{meta: &stream.Meta{Path: path, Incarnation: e.disk.lastInc}, tail: size}
		e.decide(stream.Change{Path: path, Created: true, Before: s.meta.OffsetAt(0), After: s.meta.OffsetAt(size)}, s, done)
		return nil
	})
}

func (e *engine) append(path stream.Path, size uint64) error {
	return e.change(func(done func(error)) error { return e.grow(path, size, func(*fakeStream) {}, done) })
}

func (e *engine) grow(path stream.Path, size uint64, also func(*fakeStream), done func(error)) error {
	s := e.decided[path]
	if s == nil {
		return &stream.Error{Kind: stream.NotFound}
	}
	s = s.clone()
	before := s.tail
	s.tail += size
	also(s)
	e.decide(stream.Change{Path: path, Before: s.meta.OffsetAt(before), After: s.meta.OffsetAt(s.tail)}, s, done)
	return nil
}

func (e *engine) delete(path stream.Path) error {
	return e.change(func(done func(error)) error {
		s := e.decided[path]
		if s == nil {
			return &stream.Error{Kind: stream.NotFound}
		}
		end := s.meta.OffsetAt(s.tail)
		e.decide(stream.Change{Path: path, Gone: true, Before: end, After: end}, nil, done)
		return nil
	})
}

func (e *engine) tail(path stream.Path) (inc stream.Incarnation, tail uint64, found bool) {
	e.slots.Lock()
	defer e.slots.Unlock()
	s := e.decided[path]
	if s == nil {
		return 0, 0, false
	}
	return s.meta.Incarnation, s.tail, true
}

func (e *engine) setClosed(path stream.Path) {
	e.slots.Lock()
	defer e.slots.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decided[path].closed = true
	e.disk.streams[path].closed = true
}

// AppendEvent implements subscription.WakeStreams.
func (e *engine) AppendEvent(path stream.Path, event []byte, p stream.Producer, done func(error)) {
	e.slots.Lock()
	defer e.slots.Unlock()
	e.appends.Add(1)
	if tell, late := done, e.slow; late > 0 {
		done = func(err error) { time.AfterFunc(late, func() { tell(err) }) }
	}
	s := e.decided[path]
	switch last, known := s.epoch(p.ID); {
	case s == nil:
		done(&stream.Error{Kind: stream.NotFound})
	case s.closed:
		done(&stream.Error{Kind: stream.Closed, Message: "the stream is closed"})
	case p.Seq != 0 || known && p.Epoch < last:
		done(&stream.Error{Kind: stream.ProducerFenced, Message: "fenced"})
	case known && p.Epoch == last:
		e.put(record{done: done}) // the answer to a duplicate waits for the original
	default:
		err := e.grow(path, uint64(len(event)), func(s *fakeStream) {
			s.events = append(s.events, string(event))
			if s.epochs == nil {
				s.epochs = map[string]uint64{}
			}
			s.epochs[p.ID] = p.Epoch
		}, done)
		if err != nil {
			done(err)
		}
	}
}

func (s *fakeStream) epoch(id string) (last uint64, known bool) {
	if s == nil {
		return 0, false
	}
	last, known = s.epochs[id]
	return last, known
}

// wakeEvent is an event as workers read it.
type wakeEvent struct {
	Type       string
	ID         string `json:"subscription_id"`
	Stream     string
	Generation uint64
	Time       int64 `json:"ts"`
}

// events reads a wake stream as far as it is durable.
func (e *engine) events(t *testing.T, path stream.Path) []wakeEvent {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.disk.streams[path]
	if s == nil {
		return nil
	}
	events := make([]wakeEvent, len(s.events))
	for i, text := range s.events {
		if err := json.Unmarshal([]byte(text), &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return events
}

// tailOf is the durable tail of a stream.
func (e *engine) tailOf(path stream.Path) stream.Offset {
	snap, err := e.Stat(path, false)
	if err != nil {
		return stream.Offset{}
	}
	return snap.TailOffset()
}

// tokens signs nothing: what a token says is readable.
type tokens struct{}

// Mint implements subscription.Tokens.
func (tokens) Mint(t subscription.Token) (string, error) {
	b, err := json.Marshal(t)
	return string(b), err
}

// Verify implements subscription.Tokens.
func (tokens) Verify(text string) (t subscription.Token, err error) {
	err = json.Unmarshal([]byte(text), &t)
	return t, err
}

// wakeCall is a webhook request.
type wakeCall struct {
	ID         string `json:"subscription_id"`
	WakeID     string `json:"wake_id"`
	Generation uint64
	Streams    []toldStream
	URL        string `json:"callback_url"`
	Token      string `json:"callback_token"`
	at         time.Time
}

func (c *wakeCall) ref() subscription.WakeRef {
	return subscription.WakeRef{Token: c.Token, WakeID: c.WakeID, Generation: c.Generation}
}

type toldStream struct {
	Path    stream.Path
	Link    string `json:"link_type"`
	Acked   string `json:"acked_offset"`
	Tail    string `json:"tail_offset"`
	Pending bool   `json:"has_pending"`
}

// receivers answers webhook calls.
type receivers struct {
	mu     sync.Mutex
	calls  []*wakeCall
	open   int
	most   int  // calls that were open at once
	strict bool // no URL is good
	answer func(ctx context.Context, url string, c *wakeCall) (done bool, err error)
}

// CheckURL implements subscription.Webhooks.
func (r *receivers) CheckURL(url string) error {
	if r.strict || !strings.HasPrefix(url, "https://") {
		return errors.New("it must use https")
	}
	return nil
}

// Deliver implements subscription.Webhooks.
func (r *receivers) Deliver(ctx context.Context, url string, body []byte) (bool, error) {
	c := &wakeCall{at: time.Now()}
	if err := json.Unmarshal(body, c); err != nil {
		panic(err)
	}
	r.mu.Lock()
	r.calls = append(r.calls, c)
	r.open++
	r.most = max(r.most, r.open)
	answer := r.answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.open--
	}()
	if answer == nil {
		return true, nil
	}
	return answer(ctx, url, c)
}

func (r *receivers) setAnswer(f func(ctx context.Context, url string, c *wakeCall) (bool, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// take gives the calls since the last time.
func (r *receivers) take() []*wakeCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// server is a manager on an engine, over a disk that survives both.
type server struct {
	t    *testing.T
	disk *disk
	rnd  *rand.Rand
	opts subscription.Options
	*engine
	*subscription.Manager
	*receivers
}

func newServer(t *testing.T) *server {
	s := &server{t: t, disk: newDisk(), rnd: rand.New(rand.NewPCG(1, 2)), receivers: &receivers{}}
	s.start()
	return s
}

func (s *server) start() {
	s.Manager = subscription.New(&s.opts)
	s.engine = newEngine(s.disk, s.Manager, s.rnd)
	s.begin()
}

func (s *server) begin() {
	s.t.Helper()
	if err := s.Manager.Start(subscription.Ports{Engine: s.engine, WakeStreams: s.engine, Webhooks: s.receivers, Tokens: tokens{}}); err != nil {
		s.t.Fatal(err)
	}
}

// crash loses what is not durable. Of the old manager nothing may matter any more.
func (s *server) crash() {
	s.engine.crash()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Manager.Close(now); err != nil {
		s.t.Error(err)
	}
}

// stop ends as a server does in good order.
func (s *server) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.Manager.Close(ctx); err != nil {
		s.t.Error(err)
	}
	s.engine.close()
}

func (s *server) restart() {
	s.crash()
	s.start()
}

const rootURL = "http://ds.example/v1/stream"

func (s *server) mustCreate(id string, c subscription.Config) subscription.View {
	s.t.Helper()
	v, created, err := s.Manager.Create(s.t.Context(), id, rootURL, c)
	if err != nil || !created {
		s.t.Fatalf("create %s: created %v, %v", id, created, err)
	}
	return v
}

func pull(pattern string) subscription.Config {
	return subscription.Config{Type: subscription.PullWake, Pattern: pattern, WakeStream: "wake/pool"}
}

func hook(pattern string) subscription.Config {
	return subscription.Config{Type: subscription.Webhook, Pattern: pattern, WebhookURL: "https://worker.example/hooks"}
}

func (s *server) mustClaim(id string) subscription.Wake {
	s.t.Helper()
	w, err := s.Claim(s.t.Context(), id, "worker")
	if err != nil {
		s.t.Fatalf("claim %s: %v", id, err)
	}
	return w
}

func ref(w subscription.Wake) subscription.WakeRef {
	return subscription.WakeRef{Token: w.Token, WakeID: w.ID, Generation: w.Generation}
}

// ackAll acks all that a wake names.
func ackAll(w subscription.Wake) (acks []subscription.Ack) {
	for _, l := range w.Streams {
		acks = append(acks, subscription.Ack{Stream: string(l.Path), Offset: l.Tail.String()})
	}
	return acks
}

// cursor gives a stream's cursor as GET shows it.
func (s *server) cursor(id string, path stream.Path) string {
	s.t.Helper()
	v, err := s.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range v.Streams {
		if l.Path == path {
			return l.LinkType() + " " + l.Acked.String()
		}
	}
	return "not linked"
}

func wantCode(t *testing.T, err error, code subscription.Code) *subscription.Refusal {
	t.Helper()
	r, ok := errors.AsType[*subscription.Refusal](err)
	if !ok || r.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return r
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (w wakeEvent) String() string { return fmt.Sprintf("%s %s g%d", w.ID, w.Stream, w.Generation) }
