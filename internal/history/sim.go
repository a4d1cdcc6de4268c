package history

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"durablestreams/internal/dstest"
	"durablestreams/internal/metamorphic"
)

// Server is what a simulation drives.
type Server interface {
	Handler() http.Handler
	Root() string            // URL path of all streams, with a slash at the end
	Failed() <-chan struct{} // closed when the disk has failed: the process would end

	// Drain lets live reads end; Close closes the data directory once no request
	// is inside any more.
	Drain()
	Close() error
}

// Sim is a history on a simulated disk, in virtual time: many clients, power cuts,
// failing and full disks, starts and stops.
type Sim struct {
	Seed    uint64
	Clients int // default 8
	Lives   int // default 8
	Steps   int // of a client in a life; default 14
	Open    func(fs vfs.FS) (Server, error)
	Settle  func() // waits until nothing moves: synctest.Wait

	rec   *Recorder
	cast  *Cast
	rng   *rand.Rand
	disk  *dstest.Disk
	life  int
	log   []string
	Stats Stats
}

// Stats counts what happened to a server.
type Stats struct {
	Lives, Cuts, RecoveryCuts, Stops, Failures, Full int
}

// Add sums up.
func (s *Stats) Add(o Stats) {
	s.Lives += o.Lives
	s.Cuts += o.Cuts
	s.RecoveryCuts += o.RecoveryCuts
	s.Stops += o.Stops
	s.Failures += o.Failures
	s.Full += o.Full
}

// LongPoll is how long a long-poll waits in a simulation.
const LongPoll = 150 * time.Millisecond

// Run gives the history. The error is about the server, not about the history.
func (s *Sim) Run() ([]*Op, error) {
	setDefault(&s.Clients, 8)
	setDefault(&s.Lives, 8)
	setDefault(&s.Steps, 14)
	s.rng = rand.New(rand.NewPCG(s.Seed, 0))
	s.rec = NewRecorder()
	s.cast = NewCast(s.rec, s.Clients, "", s.Seed)
	s.disk = dstest.NewDisk()
	for s.life = range s.Lives {
		s.Stats.Lives++
		if err := s.one(); err != nil {
			return nil, fmt.Errorf("life %d of %q: %w", s.life, s.log, err)
		}
	}
	if err := s.last(); err != nil {
		return nil, fmt.Errorf("after %q: %w", s.log, err)
	}
	return s.rec.Ops(), nil
}

func setDefault(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

// one is one life of the server, from its start to its end.
func (s *Sim) one() error {
	server, err := s.start()
	if err != nil {
		return err
	}
	trouble := s.trouble()
	s.log = append(s.log, trouble.name)
	t := &inside{handler: server.Handler(), lost: func() bool { return trouble.cut.Fired() }}
	var stopping atomic.Bool
	conn := &Conn{Life: s.life, Streams: "http://ds" + server.Root()[:len(server.Root())-1], HTTP: t, LongPoll: func() time.Duration {
		if stopping.Load() {
			return 0
		}
		return LongPoll
	}, Exact: true, MayFail: trouble.fail != nil, MayBeFull: trouble.full != nil || trouble.fail != nil}
	s.cast.Audit(conn)
	s.disk.OnOp(trouble.op)
	done := make(chan struct{})
	defer close(done)
	if trouble.full != nil {
		go trouble.full(done)
	}
	over := func() bool { return stopping.Load() || trouble.cut.Fired() || failed(server) }
	if trouble.stop > 0 {
		go func() {
			select {
			case <-time.After(trouble.stop):
				stopping.Store(true)
				server.Drain()
			case <-done:
			}
		}()
	}
	s.cast.Perform(conn, s.Steps, over, trouble.pause)
	s.cast.Audit(conn)
	stopping.Store(true)
	return s.end(server, t, trouble)
}

// end lets the server end as the trouble wants, and takes what is left of the disk.
func (s *Sim) end(server Server, t *inside, tr *trouble) error {
	t.stop()
	cut := tr.cut.Fired()
	if !cut && tr.quiet {
		s.Settle() // with requests of clients that have gone
	}
	left := s.disk
	if !cut && tr.quiet {
		left = s.disk.Crash(s.split(), dstest.RandomLoss(s.rng))
	}
	server.Drain()
	t.drain()
	s.Settle()
	s.disk.OnOp(nil)
	s.disk.SetCapacity(0)
	bad := failed(server)
	err := server.Close()
	s.rec.Died(s.life)
	switch {
	case cut:
		s.Stats.Cuts++
		s.disk = tr.cut.After
	case tr.quiet:
		s.Stats.Cuts++
		s.disk = left
	case bad:
		s.Stats.Failures++
		if s.rng.IntN(2) == 0 {
			s.disk = s.disk.Crash(s.split(), dstest.RandomLoss(s.rng))
		}
	case err != nil:
		return fmt.Errorf("close: %w", err)
	default:
		s.Stats.Stops++
	}
	return nil
}

// start opens a server on what there is; the power may go during recovery.
func (s *Sim) start() (Server, error) {
	for s.rng.IntN(4) == 0 {
		cut := dstest.ArmPowerCut(s.disk, s.split(), dstest.RandomLoss(s.rng), s.rng.IntN(60))
		server, err := s.Open(s.disk)
		s.Settle()
		if err == nil {
			err = server.Close()
		}
		s.disk.OnOp(nil)
		if err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		if !cut.Fired() {
			break
		}
		s.Stats.RecoveryCuts++
		s.disk = cut.After
	}
	server, err := s.Open(s.disk)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return server, nil
}

// last looks at everything once more, stops the server and checks its files.
func (s *Sim) last() error {
	s.life = s.Lives
	server, err := s.start()
	if err != nil {
		return err
	}
	t := &inside{handler: server.Handler(), lost: func() bool { return false }}
	s.cast.Audit(&Conn{Life: s.life, Streams: "http://ds" + server.Root()[:len(server.Root())-1], HTTP: t})
	t.drain()
	if err := server.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return metamorphic.CheckStore(dstest.Dir)(s.disk)
}

func (s *Sim) split() *rand.Rand { return rand.New(rand.NewPCG(s.Seed, s.rng.Uint64())) }

func failed(server Server) bool {
	select {
	case <-server.Failed():
		return true
	default:
		return false
	}
}
