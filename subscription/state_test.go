package subscription

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"durablestreams/internal/glob"
	"durablestreams/stream"
)

// player carries a script of transitions out on one subscription and tells what
// came of each. Times are seconds, offsets are positions.
type player struct {
	t    *testing.T
	s    *state
	now  int64
	wake int
	rows map[string][]byte // what a crash would keep
}

const inc = stream.Incarnation(7)

func at(pos uint64) stream.Offset { return stream.Offset{Pos: pos, Inc: inc} }

func newPlayer(t *testing.T, kind string) *player {
	set := settings{typ: PullWake, wakeStream: "wake", ttl: 30 * time.Second}
	if kind == "webhook" {
		set = settings{typ: Webhook, url: "https://a.example/", ttl: 30 * time.Second}
	}
	var err error
	if set.pattern, err = glob.Parse("*"); err != nil {
		t.Fatal(err)
	}
	return &player{t: t, s: &state{id: "s", own: 1, settings: set}, rows: map[string][]byte{}}
}

// do carries one line out: a time, then a command.
func (p *player) do(line string) string {
	f := strings.Fields(line)
	seconds, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		p.t.Fatalf("%q does not start with a time", line)
	}
	p.now = int64(seconds * float64(time.Second))
	st := &step{now: p.now, random: random{
		wakeID: func() string { p.wake++; return fmt.Sprint("w", p.wake) },
		unit:   func() float64 { return 0.5 },
	}}
	var refusal *Refusal
	said := ""
	p.s.do(st, func() { said, refusal = p.command(st, f[1], f[2:]) })
	for _, r := range st.rows {
		if r.Value == nil {
			delete(p.rows, string(r.Key))
		} else {
			p.rows[string(r.Key)] = r.Value
		}
	}
	p.checkRows()
	out := []string{}
	if refusal != nil {
		text := string(refusal.Code)
		if refusal.Holder != "" {
			text += fmt.Sprint(" ", refusal.Holder, " ", refusal.Generation)
		}
		out = append(out, text)
	}
	if said != "" {
		out = append(out, said)
	}
	out = append(out, p.show())
	if st.announce {
		out = append(out, "announce")
	}
	if st.cut {
		out = append(out, "cut")
	}
	return strings.Join(out, "; ")
}

// fence names the current wake, or with old the one before.
func (p *player) fence(old bool) fence {
	f := fence{token: p.s.token(p.now), generation: p.s.generation, wakeID: p.s.wakeID}
	if old {
		f.token.Generation--
		f.token.WakeID = fmt.Sprint("w", p.wake-1)
		f.generation, f.wakeID = f.token.Generation, f.token.WakeID
	}
	return f
}

func (p *player) command(st *step, name string, args []string) (string, *Refusal) {
	s := p.s
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(args[i], 10, 64)
		if err != nil {
			p.t.Fatalf("%v: %v", args, err)
		}
		return n
	}
	old := len(args) > 0 && args[0] == "old"
	if old {
		args = args[1:]
	}
	switch name {
	case "append":
		s.arrive(st, stream.Change{Path: stream.Path(args[0]), Before: at(number(1)), After: at(number(2))})
	case "create":
		s.arrive(st, stream.Change{Path: stream.Path(args[0]), Created: true, Before: at(0), After: at(number(1))})
	case "gone":
		s.arrive(st, stream.Change{Path: stream.Path(args[0]), Gone: true, Before: at(9), After: at(9)})
	case "claim":
		return "", s.claim(st, args[0])
	case "ack", "done":
		var acks []ack
		for _, a := range args {
			path, pos, _ := strings.Cut(a, ":")
			pos, former := strings.CutPrefix(pos, "former")
			n, err := strconv.ParseUint(pos, 10, 64)
			if err != nil {
				acks = append(acks, ack{path: stream.Path(path)}) // it has ended
				continue
			}
			acks = append(acks, ack{path: stream.Path(path), offset: at(n), tail: p.tail(n), former: former})
		}
		return "", s.ack(st, p.fence(old), acks, nil, name == "done")
	case "release":
		return "", s.release(st, p.fence(old))
	case "issue":
		if !s.issue(st) {
			return "not due", nil
		}
		told := "tell"
		for _, l := range s.toldLinks() {
			told += fmt.Sprintf(" %s:%d", l.Path, l.Tail.Pos)
		}
		return told, nil
	case "failed", "accepted", "finished":
		wake := s.wakeID
		if old {
			wake = fmt.Sprint("w", p.wake-1)
		}
		s.conclude(st, wake, map[string]verdict{"failed": failed, "accepted": accepted, "finished": finished}[name])
	case "link":
		var paths []stream.Path
		for _, a := range args {
			paths = append(paths, stream.Path(a))
		}
		return "", s.link(st, paths)
	case "unlink":
		s.unlink(st, stream.Path(args[0]))
	case "learn":
		s.learn(st, stream.Path(args[0]), p.tail(number(1)))
	case "lost":
		s.learn(st, stream.Path(args[0]), tail{})
	case "unreadable":
		s.learn(st, stream.Path(args[0]), tail{err: stream.Damaged})
	case "restart":
		p.restart()
	case "remove":
		s.remove(st)
	case "tick":
	default:
		p.t.Fatalf("no command %q", name)
	}
	return "", nil
}

func (p *player) tail(pos uint64) tail {
	return tail{found: true, Snapshot: stream.Snapshot{Meta: &stream.Meta{Incarnation: inc}, Tail: pos}}
}

// restart makes the state from its rows again.
func (p *player) restart() {
	fresh := &state{id: p.s.id, own: p.s.own, settings: p.s.settings}
	for _, key := range slices.Sorted(maps.Keys(p.rows)) {
		_, kind, path, err := parseKey([]byte(key))
		if err == nil {
			err = fresh.restore(kind, path, p.rows[key])
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	*p.s = *fresh
}

// checkRows compares the state with what a restart would find.
func (p *player) checkRows() {
	p.t.Helper()
	want := map[string][]byte{}
	put := func(r stream.Row) { want[string(r.Key)] = r.Value }
	if p.s.deleted {
		return
	}
	if p.s.run != (run{}) {
		put(p.s.runRow())
	}
	for path := range p.s.explicit {
		put(stream.Row{Key: p.s.key(linkRows, path), Value: []byte{rowVersion}})
	}
	n := 0
	for m := p.s.marks.first; m != nil; m = m.after {
		put(p.s.markRow(m.path, m.acked))
		n++
	}
	if n != p.s.marks.len() {
		p.t.Errorf("%d marks in the list, %d in the map", n, p.s.marks.len())
	}
	for path, m := range p.s.aside {
		put(p.s.markRow(path, m.acked))
	}
	for key, value := range want {
		if !bytes.Equal(p.rows[key], value) {
			p.t.Errorf("row %q is %x, the state says %x", key, p.rows[key], value)
		}
	}
	if len(want) != len(p.rows) {
		p.t.Errorf("%d rows, the state has %d", len(p.rows), len(want))
	}
}

func (p *player) show() string {
	s := p.s
	if s.deleted {
		return "deleted"
	}
	text := fmt.Sprintf("g%d %s", s.generation, [...]string{"idle", "woken", "held"}[s.phase])
	if s.holder != "" {
		text += " " + s.holder
	}
	if s.lease != 0 {
		text += fmt.Sprintf(" until %v", float64(s.lease)/1e9)
	}
	if s.retryAt != 0 || s.retries != 0 {
		text += fmt.Sprintf(" failed %d retry %v", s.retries, float64(s.retryAt)/1e9)
	}
	for m := s.marks.first; m != nil; m = m.after {
		text += fmt.Sprintf(" %s:%d/", m.path, m.acked.Pos)
		if m.known {
			text += fmt.Sprint(m.tail.Pos)
		} else {
			text += "?"
		}
	}
	return text
}

func play(t *testing.T, kind, script string) {
	p := newPlayer(t, kind)
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		command, want, _ := strings.Cut(strings.TrimSpace(line), " => ")
		if got := p.do(strings.TrimSpace(command)); got != strings.TrimSpace(want) {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
}

func TestPullWake(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"claim, ack, done", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 append a 5 9   => g1 woken a:0/9
			2 claim w        => g1 held w until 32 a:0/9
			3 claim v        => ALREADY_CLAIMED w 1; g1 held w until 32 a:0/9
			4 ack a:5        => g1 held w until 34 a:5/9
			5 ack a:3        => g1 held w until 35 a:5/9
			6 done a:9       => g1 idle
			7 ack a:9        => FENCED; g1 idle
			8 claim w        => NO_PENDING_WORK; g1 idle
			9 append a 9 12  => g2 woken a:9/12; announce`},
		{"work during a lease wakes again", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 claim w        => g1 held w until 31 a:0/5
			2 append b 0 4   => g1 held w until 31 a:0/5 b:0/4
			3 append a 5 6   => g1 held w until 31 a:0/6 b:0/4
			4 done a:5       => g2 woken b:0/4 a:5/6; announce
			5 done a:6       => FENCED; g2 woken b:0/4 a:5/6
			6 claim v        => g2 held v until 36 b:0/4 a:5/6
			7 ack old a:6    => FENCED; g2 held v until 36 b:0/4 a:5/6
			8 done a:6 b:4   => g2 idle`},
		{"release", `
			0 append a 0 5   => g1 woken a:0/5; announce
			0 release        => FENCED; g1 woken a:0/5
			1 claim w        => g1 held w until 31 a:0/5
			2 release        => g2 woken a:0/5; announce
			3 release old    => FENCED; g2 woken a:0/5
			4 claim w        => g2 held w until 34 a:0/5
			5 ack a:5        => g2 held w until 35
			6 release        => g2 idle`},
		{"lease expiry", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 claim w        => g1 held w until 31 a:0/5
			30.9 ack         => g1 held w until 60.9 a:0/5
			60.9 ack a:5     => FENCED; g2 woken a:0/5; announce; cut
			70 claim v       => g2 held v until 100 a:0/5
			80 ack a:5       => g2 held v until 110
			111 tick         => g2 idle; cut`},
		{"claim at the end of a lease", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 claim w        => g1 held w until 31 a:0/5
			31 claim v       => g2 held v until 61 a:0/5; announce; cut`},
		{"acks of all or none", `
			0 append a 0 5   => g1 woken a:0/5; announce
			0 append b 0 5   => g1 woken a:0/5 b:0/5
			1 claim w        => g1 held w until 31 a:0/5 b:0/5
			2 done a:5 x/y:3 => INVALID_OFFSET; g1 held w until 31 a:0/5 b:0/5
			3 ack c:3        => g1 held w until 33 a:0/5 b:0/5
			4 done a:5 b:2   => g2 woken b:2/5; announce`},
		{"the work goes away", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 gone a         => g1 idle
			2 create a 3     => g2 woken a:0/3; announce
			3 claim w        => g2 held w until 33 a:0/3
			4 gone a         => g2 held w until 33
			5 create a 0     => g2 held w until 33
			6 append a 0 8   => g2 held w until 33 a:0/8
			7 done           => g3 woken a:0/8; announce`},
		{"replaced without a word", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 claim w        => g1 held w until 31 a:0/5
			1 ack a:4        => g1 held w until 31 a:4/5
			2 create a 3     => g1 held w until 31 a:0/3
			2 create a 0     => g1 held w until 31`},
		{"an acked stream has ended", `
			0 append a 0 5   => g1 woken a:0/5; announce
			0 append b 0 5   => g1 woken a:0/5 b:0/5
			1 claim w        => g1 held w until 31 a:0/5 b:0/5
			2 gone a         => g1 held w until 31 b:0/5
			3 ack a:x b:2    => g1 held w until 33 b:2/5
			4 create a 3     => g1 held w until 33 b:2/5 a:0/3
			5 ack x/y:x b:5  => INVALID_OFFSET; g1 held w until 33 b:2/5 a:0/3
			6 done a:x b:5   => g2 woken a:0/3; announce`},
		{"an acked stream is another one", `
			0 append a 0 5      => g1 woken a:0/5; announce
			0 append b 0 5      => g1 woken a:0/5 b:0/5
			1 claim w           => g1 held w until 31 a:0/5 b:0/5
			2 gone a            => g1 held w until 31 b:0/5
			3 create a 3        => g1 held w until 31 b:0/5 a:0/3
			4 ack a:former5 b:2 => g1 held w until 34 b:2/5 a:0/3
			5 ack b:former5     => INVALID_OFFSET; g1 held w until 34 b:2/5 a:0/3
			6 ack c:former5     => INVALID_OFFSET; g1 held w until 34 b:2/5 a:0/3
			7 ack a:2           => g1 held w until 37 b:2/5 a:2/3
			8 done a:former5    => g2 woken a:2/3 b:2/5; announce
			9 claim w           => g2 held w until 39 a:2/3 b:2/5
			9 done a:former5    => INVALID_OFFSET; g2 held w until 39 a:2/3 b:2/5`},
		{"acked, then another one", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 claim w        => g1 held w until 31 a:0/5
			2 ack a:5        => g1 held w until 32
			3 gone a         => g1 held w until 32
			4 create a 0     => g1 held w until 32
			5 done a:former5 => g1 idle`},
		{"the clock is set back", `
			100 append a 0 5  => g1 woken a:0/5; announce
			100 claim w       => g1 held w until 130 a:0/5
			10 append a 5 6   => g1 held w until 40 a:0/6
			40 tick           => g2 woken a:0/6; announce; cut`},
		{"links", `
			0 append x/y 0 5   => g1 woken x/y:0/5; announce
			1 link x/y u       => g1 woken x/y:0/5
			2 unlink nothing   => g1 woken x/y:0/5
			3 link wake        => INVALID_REQUEST; g1 woken x/y:0/5
			4 unlink x/y       => g1 idle
			5 link a           => g1 idle
			5 append a 0 1     => g2 woken a:0/1; announce
			6 unlink a         => g2 woken a:0/1`},
		{"unlinked while it is worked on", `
			0 link x/y         => g0 idle
			0 append x/y 0 5   => g1 woken x/y:0/5; announce
			0 append a 0 5     => g1 woken x/y:0/5 a:0/5
			1 claim w          => g1 held w until 31 x/y:0/5 a:0/5
			2 unlink x/y       => g1 held w until 31 a:0/5
			3 ack x/y:3 a:2    => g1 held w until 33 a:2/5
			4 ack x/z:3        => INVALID_OFFSET; g1 held w until 33 a:2/5
			5 link x/y         => g1 held w until 33 a:2/5
			6 append x/y 5 9   => g1 held w until 33 a:2/5 x/y:5/9
			7 ack x/y:5 a:5    => g1 held w until 37 x/y:5/9
			8 unlink x/y       => g1 held w until 37
			9 done x/y:9       => g1 idle`},
		{"turns", `
			0 append a 0 5   => g1 woken a:0/5; announce
			0 append b 0 5   => g1 woken a:0/5 b:0/5
			0 claim w        => g1 held w until 30 a:0/5 b:0/5
			0 append c 0 5   => g1 held w until 30 a:0/5 b:0/5 c:0/5
			0 release        => g2 woken c:0/5 a:0/5 b:0/5; announce`},
		{"restart", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 claim w        => g1 held w until 31 a:0/5
			2 restart        => g1 held w until 31 a:0/?
			3 claim v        => ALREADY_CLAIMED w 1; g1 held w until 31 a:0/?
			4 ack a:3        => g1 held w until 34
			5 append a 3 9   => g1 held w until 34 a:3/9
			6 restart        => g1 held w until 34 a:3/?
			7 learn a 9      => g1 held w until 34 a:3/9
			8 ack a:4        => g1 held w until 38 a:4/9
			9 restart        => g1 held w until 38 a:4/?
			10 append a 9 10 => g1 held w until 38 a:4/10
			11 restart       => g1 held w until 38 a:4/?
			12 lost a        => g1 held w until 38
			50 tick          => g1 idle; cut`},
		{"a stream that cannot be read", `
			0 append a 0 5   => g1 woken a:0/5; announce
			0 append b 0 5   => g1 woken a:0/5 b:0/5
			1 restart        => g1 woken a:0/? b:0/?
			1 unreadable a   => g1 woken b:0/?
			2 learn b 5      => g1 woken b:0/5
			3 claim w        => g1 held w until 33 b:0/5
			4 done b:5       => g1 idle
			61 tick          => g2 woken a:0/?; announce
			61 unreadable a  => g2 idle
			62 append a 5 8  => g3 woken a:0/8; announce`},
		{"delete", `
			0 append a 0 5   => g1 woken a:0/5; announce
			1 remove         => deleted; cut`},
	} {
		t.Run(tt.name, func(t *testing.T) { play(t, "pull-wake", tt.script) })
	}
}

func TestWebhook(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"done at once", `
			0 issue          => not due; g0 idle
			0 append a 0 5   => g0 idle a:0/5
			1 issue          => tell a:5; g1 woken until 31 a:0/5
			1 issue          => not due; g1 woken until 31 a:0/5
			2 append a 5 8   => g1 woken until 31 a:0/8
			2 append b 0 3   => g1 woken until 31 a:0/8 b:0/3
			3 finished       => g1 idle b:0/3 a:5/8
			4 issue          => tell b:3 a:8; g2 woken until 34 b:0/3 a:5/8
			5 finished       => g2 idle`},
		{"called back", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 accepted       => g1 held until 30 a:0/5
			9 ack a:2        => g1 held until 39 a:2/5
			10 done a:5      => g1 idle
			11 done a:5      => FENCED; g1 idle
			12 finished      => g1 idle`},
		{"called back before the answer", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			9 ack a:2        => g1 held until 39 a:2/5
			10 failed        => g1 held until 39 a:2/5
			11 finished      => g1 idle`},
		{"retries", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 failed         => g1 woken until 30 failed 1 retry 2 a:0/5
			1 failed         => g1 woken until 30 failed 1 retry 2 a:0/5
			1.5 append a 5 6 => g1 woken until 30 failed 1 retry 2 a:0/6
			1.9 issue        => not due; g1 woken until 30 failed 1 retry 2 a:0/6
			2 issue          => tell a:5; g1 woken until 32 failed 1 retry 0 a:0/6
			3 failed         => g1 woken until 32 failed 2 retry 5 a:0/6
			5 issue          => tell a:5; g1 woken until 35 failed 2 retry 0 a:0/6
			6 finished       => g1 idle a:5/6`},
		{"a callback of a failed delivery", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 failed         => g1 woken until 30 failed 1 retry 2 a:0/5
			1.5 done a:5     => g1 idle`},
		{"silence", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			30 tick          => g1 idle failed 1 retry 31 a:0/5; cut
			30 finished      => g1 idle failed 1 retry 31 a:0/5
			30 issue         => not due; g1 idle failed 1 retry 31 a:0/5
			31 issue         => tell a:5; g2 woken until 61 failed 1 retry 0 a:0/5
			32 finished old  => g2 woken until 61 failed 1 retry 0 a:0/5
			33 finished      => g2 idle`},
		{"a lost worker", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 accepted       => g1 held until 30 a:0/5
			30 tick          => g1 idle a:0/5; cut
			30 issue         => tell a:5; g2 woken until 60 a:0/5`},
		{"a lease shorter than the pause", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			29.5 failed      => g1 woken until 30 failed 1 retry 30.5 a:0/5
			30 tick          => g1 idle failed 1 retry 30.5 a:0/5; cut
			30.5 issue       => tell a:5; g2 woken until 60.5 failed 1 retry 0 a:0/5`},
		{"the work goes away", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 gone a         => g1 woken until 30
			1 create a 7     => g1 woken until 30 a:0/7
			2 finished       => g1 idle a:0/7
			2 issue          => tell a:7; g2 woken until 32 a:0/7
			3 failed         => g2 woken until 32 failed 1 retry 4 a:0/7
			3 gone a         => g2 idle failed 1 retry 4
			9 issue          => not due; g2 idle failed 1 retry 4
			9 append b 0 1   => g2 idle failed 1 retry 4 b:0/1
			9 issue          => tell b:1; g3 woken until 39 failed 1 retry 0 b:0/1`},
		{"another attempt when what was told is acked", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 failed         => g1 woken until 30 failed 1 retry 2 a:0/5
			1 append b 0 1   => g1 woken until 30 failed 1 retry 2 a:0/5 b:0/1
			1 gone a         => g1 woken until 30 failed 1 retry 2 b:0/1
			2 issue          => tell b:1; g2 woken until 32 failed 1 retry 0 b:0/1`},
		{"restart under a call", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 restart        => g1 woken until 30 a:0/?
			2 issue          => not due; g1 woken until 30 a:0/?
			3 done a:5       => g1 idle`},
		{"restart before a retry", `
			0 append a 0 5   => g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 failed         => g1 woken until 30 failed 1 retry 2 a:0/5
			1 restart        => g1 woken until 30 failed 1 retry 2 a:0/?
			1 learn a 5      => g1 woken until 30 failed 1 retry 2 a:0/5
			1.9 issue        => not due; g1 woken until 30 failed 1 retry 2 a:0/5
			2 issue          => tell a:5; g2 woken until 32 failed 1 retry 0 a:0/5`},
		{"the clock is set back", `
			100 append a 0 5 => g0 idle a:0/5
			100 issue        => tell a:5; g1 woken until 130 a:0/5
			101 failed       => g1 woken until 130 failed 1 retry 102 a:0/5
			0 tick           => g1 woken until 30 failed 1 retry 72 a:0/5`},
		{"not for workers", `
			0 append a 0 5   => g0 idle a:0/5
			0 claim w        => INVALID_REQUEST; g0 idle a:0/5
			0 issue          => tell a:5; g1 woken until 30 a:0/5
			1 release        => INVALID_REQUEST; g1 woken until 30 a:0/5`},
	} {
		t.Run(tt.name, func(t *testing.T) { play(t, "webhook", tt.script) })
	}
}

// TestFence tries each thing that must agree (§7.3).
func TestFence(t *testing.T) {
	for name, spoil := range map[string]func(*fence){
		"":                              func(*fence) {},
		"FENCED generation":             func(f *fence) { f.generation++ },
		"FENCED wake id":                func(f *fence) { f.wakeID = "w0" },
		"FENCED token's generation":     func(f *fence) { f.token.Generation-- },
		"FENCED token's wake":           func(f *fence) { f.token.WakeID = "w0" },
		"FENCED stale and expired":      func(f *fence) { f.token.Generation--; f.token.Expires = time.Unix(0, 0) },
		"TOKEN_EXPIRED":                 func(f *fence) { f.token.Expires = time.Unix(0, 0) },
		"TOKEN_INVALID type":            func(f *fence) { f.token.Type = Webhook },
		"TOKEN_INVALID id":              func(f *fence) { f.token.ID = "t" },
		"TOKEN_INVALID earlier life":    func(f *fence) { f.token.Own++ },
		"TOKEN_INVALID before FENCED":   func(f *fence) { f.token.Own++; f.generation++ },
		"FENCED before the acks' fault": func(f *fence) { f.generation++ },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlayer(t, "pull-wake")
			p.do("0 append a 0 5")
			p.do("1 claim w")
			f := p.fence(false)
			spoil(&f)
			st := &step{now: p.now}
			r := p.s.ack(st, f, nil, refuseIf(strings.Contains(name, "fault")), true)
			switch want, _, _ := strings.Cut(name, " "); {
			case want == "" && r != nil:
				t.Errorf("refused: %v", r)
			case want != "" && (r == nil || string(r.Code) != want || p.s.phase != held):
				t.Errorf("got %v, phase %d", r, p.s.phase)
			}
		})
	}
}

func refuseIf(unfit bool) *Refusal {
	if unfit {
		return refuse(InvalidOffset, "")
	}
	return nil
}

// TestFormerStream acks with an offset of the stream that was at the path before.
func TestFormerStream(t *testing.T) {
	p := newPlayer(t, "pull-wake")
	p.do("0 append a 0 5")
	p.do("1 claim w")
	former := tail{found: true, Snapshot: stream.Snapshot{Meta: &stream.Meta{Incarnation: inc + 1}, Tail: 5}}
	r := p.s.ack(&step{now: p.now}, p.fence(false), []ack{{path: "a", offset: stream.Offset{Pos: 5, Inc: inc + 1}, tail: former}}, nil, true)
	if r == nil || r.Code != InvalidOffset || !p.s.pending() {
		t.Errorf("got %v, pending %v", r, p.s.pending())
	}
}

func TestBackoff(t *testing.T) {
	for n, seconds := range []float64{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		for unit, factor := range map[float64]float64{0: 0.8, 0.5: 1, 1: 1.2} {
			if got, want := backoff(uint32(n+1), unit).Seconds(), seconds*factor; got < want-1e-6 || got > want+1e-6 {
				t.Errorf("failure %d with %v: %v, want %v", n+1, unit, got, want)
			}
		}
	}
	if got := backoff(1<<31, 0.5); got != time.Minute {
		t.Errorf("after many failures: %v", got)
	}
	if got := backoff(7, 1); got != maxBackoff {
		t.Errorf("the longest pause is %v, not %v", got, maxBackoff)
	}
}

// TestManyPending: a wake tells of so many streams at most, and all have their turn.
func TestManyPending(t *testing.T) {
	p := newPlayer(t, "webhook")
	const all = 2*maxTold + 10
	for i := range all {
		p.s.arrive(&step{}, stream.Change{Path: stream.Path(fmt.Sprint(i)), Before: at(0), After: at(1)})
	}
	wake := func() int {
		st := &step{now: p.now, random: random{wakeID: func() string { return "w" }}}
		if !p.s.issue(st) {
			t.Fatal("not due")
		}
		return len(p.s.toldLinks())
	}
	finish := func() { p.s.conclude(&step{now: p.now}, "w", finished) }
	if n := wake(); n != maxTold {
		t.Fatalf("told about %d", n)
	}
	finish()
	if p.s.marks.len() != all-maxTold {
		t.Fatalf("%d are pending", p.s.marks.len())
	}
	wake()
	p.s.ack(&step{now: p.now}, p.fence(false), nil, nil, true) // acks nothing
	if first := p.s.firstPending(); first != stream.Path(fmt.Sprint(2*maxTold)) {
		t.Errorf("%s has the next turn", first)
	}
	if n := wake(); n != maxTold {
		t.Fatalf("told about %d", n)
	}
	finish()
	if wake() != 10 {
		t.Errorf("%d are left", len(p.s.toldLinks()))
	}
}
