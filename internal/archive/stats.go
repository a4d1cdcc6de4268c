package archive

import "time"

// Stats is an archive at one moment. Counters start with Open.
type Stats struct {
	Levels         []Level
	MemTableBytes  int64
	CacheBytes     int64
	CacheHits      int64
	CacheMisses    int64
	Compactions    int64
	CompactionTime time.Duration
	FailedAttempts int64 // compactions that ended with an error, for want of space too
	Compacting     int64 // under way
	CompactionDebt int64 // bytes that are to be rewritten, an estimate
	FlushedBytes   int64
	CompactedBytes int64 // written by compactions
	DiskBytes      int64
	DeadBytes      int64 // of deleted data that compactions will free, an estimate
	L0Sublevels    int64 // files that one read may have to look into at level 0
	Damaged        bool  // a read or a compaction has met damaged data
}

// Level is one level of the tree.
type Level struct{ Files, Bytes int64 }

// Stats gives the figures; those of a closed archive are zero.
func (a *Archive) Stats() (s Stats) {
	if a.enter() != nil {
		return s
	}
	defer a.leave()
	m := a.db.Metrics()
	for i := range m.Levels {
		l := &m.Levels[i]
		s.Levels = append(s.Levels, Level{l.TablesCount, l.TablesSize})
		s.FlushedBytes += int64(l.TableBytesFlushed)
		s.CompactedBytes += int64(l.TableBytesCompacted)
	}
	s.L0Sublevels = int64(m.Levels[0].Sublevels)
	s.MemTableBytes = int64(m.MemTable.Size)
	s.CacheBytes, s.CacheHits, s.CacheMisses = m.BlockCache.Size, m.BlockCache.Hits, m.BlockCache.Misses
	s.Compactions, s.CompactionTime, s.FailedAttempts = m.Compact.Count, m.Compact.Duration, m.Compact.FailedCount
	s.Compacting, s.CompactionDebt = m.Compact.NumInProgress, int64(m.Compact.EstimatedDebt)
	s.DiskBytes = int64(m.DiskSpaceUsage())
	s.DeadBytes = int64(m.Table.Garbage.PointDeletionsBytesEstimate + m.Table.Garbage.RangeDeletionsBytesEstimate)
	s.Damaged = a.space.damaged.Load()
	return s
}
