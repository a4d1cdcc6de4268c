// Package tenant keeps count of what the tenants of a server use, and refuses what is
// beyond their limits. A tenant is the first segment of its streams' paths. It does not
// know how streams are stored or asked for: a [Ledger] is told of streams that come and
// go and of live reads, and answers at once, without waiting for anything.
//
// Everything may be used by any number of goroutines at once. Appends of different
// tenants share nothing; those of one tenant share atomic figures and no lock.
package tenant

import (
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"durablestreams/store"
	"durablestreams/stream"
)

// shards spreads the tenants over so many locks.
const shards = 64

// Ledger has an account for each tenant that uses something or stands in the file.
type Ledger struct {
	begun time.Time
	seed  maphash.Seed

	reload sync.Mutex
	table  atomic.Pointer[Table]
	shards [shards]shard
}

// shard has some of the accounts. What makes an account needed is done with the lock
// held, so that none is dropped that is.
type shard struct {
	sync.Mutex
	accounts map[string]*Account
	sweepAt  int // size at which idle accounts are dropped
}

// minSweep is the size of a shard below which nothing is dropped.
const minSweep = 64

// NewLedger gives a ledger with nothing in it.
func NewLedger(t *Table) *Ledger {
	l := &Ledger{begun: time.Now(), seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].accounts, l.shards[i].sweepAt = map[string]*Account{}, minSweep
	}
	l.Reload(t)
	return l
}

// Reload takes the limits of a table from now on. What is used stays, even where it is
// more than there may be now. It tells whether they are others than before.
func (l *Ledger) Reload(t *Table) (changed bool) {
	l.reload.Lock()
	defer l.reload.Unlock()
	changed = !reflect.DeepEqual(l.table.Load(), t)
	l.table.Store(t)
	for i := range l.shards {
		s := &l.shards[i]
		s.Lock()
		for _, a := range s.accounts {
			a.bound(t)
		}
		s.Unlock()
	}
	for name := range t.listed {
		l.with(name, func(*Account) {})
	}
	return changed
}

// bound gives the account its limits.
func (a *Account) bound(t *Table) {
	limits, listed := t.of(a.name)
	a.limits.Store(&limits)
	a.listed.Store(listed)
}

// Name is the tenant of the stream at a path.
func Name(p stream.Path) string {
	name, _, _ := strings.Cut(string(p), "/")
	return name
}

// Prefix begins the paths of a tenant's streams, but that of the one which is named as
// the tenant itself.
func Prefix(name string) string { return name + "/" }

func (l *Ledger) now() int64 { return int64(time.Since(l.begun)) }

func (l *Ledger) shard(name string) *shard {
	return &l.shards[maphash.String(l.seed, name)%shards]
}

// with gives do the account of a tenant, made if there is none, with its shard held.
func (l *Ledger) with(name string, do func(*Account)) {
	s := l.shard(name)
	s.Lock()
	defer s.Unlock()
	a := s.accounts[name]
	if a == nil {
		if len(s.accounts) >= s.sweepAt {
			s.sweep(l.now())
		}
		a = &Account{name: strings.Clone(name), clock: l.now}
		a.bound(l.table.Load())
		s.accounts[a.name] = a
	}
	do(a)
}

// sweep drops accounts that are not needed.
func (s *shard) sweep(now int64) {
	for name, a := range s.accounts {
		if a.idle(now) {
			delete(s.accounts, name)
		}
	}
	s.sweepAt = max(minSweep, 2*len(s.accounts))
}

// find gives the account of a tenant, nil if there is none.
func (l *Ledger) find(name string) *Account {
	s := l.shard(name)
	s.Lock()
	defer s.Unlock()
	return s.accounts[name]
}

// Create implements [store.Ledger].
func (l *Ledger) Create(p stream.Path, bytes int, dry bool) (account store.Account, err *stream.Error) {
	l.with(Name(p), func(a *Account) { account, err = a, a.create(bytes, dry) })
	return account, err
}

// Account implements [store.Ledger].
func (l *Ledger) Account(p stream.Path) (account store.Account) {
	l.with(Name(p), func(a *Account) { account = a })
	return account
}

// Found implements [store.Ledger].
func (l *Ledger) Found(p stream.Path, bytes uint64) {
	l.with(Name(p), func(a *Account) {
		a.streams.Add(1)
		a.bytes.Add(int64(bytes))
	})
}

// Follow charges a live read of the stream at a path, or gives the refusal.
func (l *Ledger) Follow(p stream.Path) (err error) {
	l.with(Name(p), func(a *Account) {
		if limit := a.limits.Load().Live; !take(&a.live, 1, limit, false) {
			err = a.refuse(byLive, stream.QuotaLive, false, time.Second, "the tenant has as many live reads as it may")
		}
	})
	return err
}

// Unfollow takes back what Follow has charged.
func (l *Ledger) Unfollow(p stream.Path) {
	if a := l.find(Name(p)); a != nil {
		a.live.Add(-1)
	}
}

// Purge lets no streams of a tenant come into being until done is called.
func (l *Ledger) Purge(name string) (done func()) {
	var account *Account
	l.with(name, func(a *Account) {
		a.purges.Add(1)
		account = a
	})
	return sync.OnceFunc(func() { account.purges.Add(-1) })
}

// Usage is what a tenant uses at one moment, its limits, and what was refused since the
// server began.
type Usage struct {
	Name   string
	Listed bool // it stands in the tenants file

	Streams, Bytes, Live int64
	Limits               Limits
	Refused              Refused
}

// Refused counts refusals.
type Refused struct{ Streams, Bytes, Appends, Live uint64 }

func (a *Account) usage() Usage {
	return Usage{Name: a.name, Listed: a.listed.Load(), Streams: a.streams.Load(), Bytes: a.bytes.Load(), Live: a.live.Load(), Limits: *a.limits.Load(),
		Refused: Refused{Streams: a.refused[byStreams].Load(), Bytes: a.refused[byBytes].Load(), Appends: a.refused[byAppends].Load(), Live: a.refused[byLive].Load()}}
}

// known reports whether there is something to show of a tenant.
func (u *Usage) known() bool { return u.Listed || u.Streams > 0 || u.Bytes > 0 || u.Live > 0 }

// Usage gives that of a tenant; ok is false if it uses nothing and does not stand in the
// file.
func (l *Ledger) Usage(name string) (u Usage, ok bool) {
	a := l.find(name)
	if a == nil {
		return Usage{}, false
	}
	u = a.usage()
	return u, u.known()
}

// List gives up to max tenants whose names come after one, in the order of names.
func (l *Ledger) List(after string, max int) []Usage {
	return l.list(max, func(u *Usage) bool { return u.Name > after && u.known() })
}

// Listed gives those that stand in the file, in the order of names.
func (l *Ledger) Listed() []Usage {
	return l.list(maxTenants, func(u *Usage) bool { return u.Listed })
}

func (l *Ledger) list(max int, wanted func(*Usage) bool) (found []Usage) {
	first := func() {
		slices.SortFunc(found, func(a, b Usage) int { return strings.Compare(a.Name, b.Name) })
		found = found[:min(len(found), max)]
	}
	for i := range l.shards {
		s := &l.shards[i]
		s.Lock()
		for _, a := range s.accounts {
			if u := a.usage(); wanted(&u) {
				found = append(found, u)
			}
		}
		s.Unlock()
		if len(found) >= 2*max {
			first()
		}
	}
	first()
	return found
}
