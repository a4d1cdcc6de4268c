package mutants_test

var storeMutants = []mutant{
	{
		name:    "store-published-before-durable",
		promise: "readers never see what a crash could take back",
		file:    "store/commit.go",
		old: `		err = e.appendJournal(b.records)
		e.stats.commits.Took(began)
		e.stats.batches.Observe(int64(len(b.ops)))
	}
	e.open.queued.Add(-b.queued)
	if err != nil {
		e.fail(err)
		b.refuse(e.failed())
		return
	}
	if b.records.Records() > 0 {
		e.publish(b)
`,
		new: `		e.publish(b)
		err = e.appendJournal(b.records)
		e.stats.commits.Took(began)
		e.stats.batches.Observe(int64(len(b.ops)))
	}
	e.open.queued.Add(-b.queued)
	if err != nil {
		e.fail(err)
		b.refuse(e.failed())
		return
	}
	if b.records.Records() > 0 {
`,
		caught: in("TestNothingBeforeItIsDurable", "./store"),
	},
	{
		name:    "store-answered-before-durable",
		promise: "an answer leaves only when its change is on disk",
		file:    "store/commit.go",
		old: `		err = e.appendJournal(b.records)
`,
		new: `		for i := range b.ops {
			b.ops[i].done.Complete(b.ops[i].res, b.ops[i].err)
			b.ops[i].done = ignore{}
		}
		err = e.appendJournal(b.records)
`,
		caught: histories,
	},
	{
		name:    "store-duplicate-before-its-original",
		promise: "a duplicate is answered when its original is durable",
		file:    "store/apply.go",
		old:     `if l := s.cur; l == nil && s.pub != nil || l != nil && l.lsn > e.durable.Load() {`,
		new:     `if l := s.cur; l == nil && s.pub != nil {`,
		caught:  in("TestNothingBeforeItIsDurable", "./store"),
	},
	{
		name:    "store-gone-before-its-delete",
		promise: "a 404 is answered when the deletion is durable",
		file:    "store/apply.go",
		old:     `if l := s.cur; l == nil && s.pub != nil || l != nil && l.lsn > e.durable.Load() {`,
		new:     `if l := s.cur; l != nil && l.lsn > e.durable.Load() {`,
		caught:  in("TestNothingBeforeItIsDurable", "./store"),
	},
	{
		name:    "store-close-lost-in-recovery",
		promise: "a closed stream is closed after a crash",
		file:    "store/recover.go",
		old:     "\tl.publishState()\n\tr.e.flush.mark(l)",
		new:     "\tl.deleted = l.state.Deleted\n\tr.e.flush.mark(l)",
		caught:  histories,
	},
	{
		name:    "store-delete-lost-in-recovery",
		promise: "a deleted stream is gone after a crash",
		file:    "store/recover.go",
		old:     "\t\tr.deletion(lsn, rec)\n",
		new:     "\t\tdelete(r.orphans, rec.ID)\n",
		caught:  histories,
	},
	{
		name:    "store-fork-edge-lost-in-recovery",
		promise: "a source stays as long as its forks, over a crash too",
		file:    "store/recover.go",
		old:     `r.edge(lsn, rec.Meta.Fork.Source, (*stream.State).AddFork)`,
		new:     `r.edge(lsn, rec.Meta.Fork.Source, func(*stream.State) {})`,
		caught:  histories,
	},
	{
		name:    "store-fork-edge-counted-twice",
		promise: "a record that the archive has is not replayed",
		file:    "store/recover.go",
		old:     "\tcase lsn > src.lsn:\n",
		new:     "\tdefault:\n",
		caught:  in("TestPartialFlush", "./store"),
	},
	{
		name:    "store-number-reused",
		promise: "the number of a stream is never used again",
		file:    "store/recover.go",
		old:     `r.e.nextID.Store(max(r.e.nextID.Load(), uint64(rec.ID)+1))`,
		new:     ``,
		caught:  histories,
	},
	{
		name:    "store-created-closed-is-open",
		promise: "a stream that was created closed is closed",
		file:    "store/commit.go",
		old:     `l.closed = l.closed || o.rec.Close`,
		new:     `l.closed = l.closed || o.rec.Close && o.rec.Kind == stream.RecordAppend`,
		caught:  histories,
	},
	{
		name:    "store-close-wakes-nobody",
		promise: "a close reaches live readers",
		file:    "store/commit.go",
		old:     `if o.rec.Kind != stream.RecordTouch && len(l.watchers) > 0 {`,
		new:     `if (len(data) > 0 || o.rec.Kind == stream.RecordDelete) && len(l.watchers) > 0 {`,
		caught:  in("TestEveryChangeWakes", "./store"),
	},
	{
		name:    "store-delete-wakes-nobody",
		promise: "a deletion ends live reads",
		file:    "store/commit.go",
		old:     `if o.rec.Kind != stream.RecordTouch && len(l.watchers) > 0 {`,
		new:     `if o.rec.Kind == stream.RecordAppend && len(l.watchers) > 0 {`,
		caught:  histories,
	},
	{
		name:    "store-soft-delete-unseen",
		promise: "a deleted source is gone for all but its forks",
		file:    "store/commit.go",
		old:     "\t\tl.deleted = true\n",
		new:     "",
		caught:  histories,
	},
	{
		name:    "store-refused-reservation-kept",
		promise: "what a refused change has reserved is given back",
		file:    "store/apply.go",
		old:     `e.open.queued.Add(-ch.reserved)`,
		new:     `_ = ch.reserved`,
		caught:  in("TestNothingStaysCounted", "./store"),
	},
	{
		name:    "store-reservation-kept",
		promise: "what a change has reserved is given back when it is durable",
		file:    "store/commit.go",
		old:     `e.open.queued.Add(-b.queued)`,
		new:     `_ = b.queued`,
		caught:  in("TestNothingStaysCounted", "./store"),
	},
	{
		name:    "store-cork-kept",
		promise: "a cork is taken back",
		file:    "store/commit.go",
		old:     "\to.corks.Add(-1)\n",
		new:     "",
		caught:  in("TestCork", "./store"),
	},
	{
		name:    "store-journal-released-too-early",
		promise: "the journal goes only after the archive is durable",
		file:    "store/flush.go",
		old: `	if err := e.archive.Sync(); err != nil {
		return err
	}
`,
		new:    "\tdefer func() { _ = e.archive.Sync() }()\n",
		caught: histories,
	},
	{
		name:    "store-archive-ahead-of-journal",
		promise: "the archive never tells of a record that the journal may lose",
		file:    "store/flush.go",
		old:     `return e.durable.Load() >= need || e.failed() != nil`,
		new:     `return e.durable.Load() >= 0`,
		caught:  histories,
	},
	{
		name:    "store-tail-dropped-too-far",
		promise: "data stay in memory until the archive has them",
		file:    "store/flush.go",
		old:     `l.tail.drop(f.end)`,
		new:     `l.tail.drop(l.tail.end())`,
		caught:  in("TestReadsWhileFlushing|TestReadAcrossFlush|TestIdleDuringFlush", "./store"),
	},
	{
		name:    "store-producers-not-archived",
		promise: "producers are remembered over a restart",
		file:    "store/commit.go",
		old:     "\t\tl.producersLSN = lsn\n",
		new:     "",
		caught:  histories,
	},
	{
		name:    "store-renewal-not-journaled",
		promise: "a restart does not forget that a stream was read",
		file:    "store/deadlines.go",
		old:     `if at-l.journaled < grain {`,
		new:     `if at-l.journaled < grain*1000 {`,
		caught:  histories,
	},
	{
		name:    "store-watched-stream-leaves-memory",
		promise: "a live reader of a quiet stream hears of late data",
		file:    "store/deadlines.go",
		old:     `&& len(l.watchers) == 0 && !l.dirty`,
		new:     `&& !l.dirty`,
		caught:  histories,
	},
	{
		name:    "store-watched-stream-forgets-renewal",
		promise: "a crash does not end a stream that was being watched",
		file:    "store/deadlines.go",
		old:     "\tif len(l.watchers) > 0 {\n\t\te.touch(l, at)\n\t}\n",
		new:     "",
		caught:  in("TestWatchedStreamOutlivesCrash", "./store"),
	},
	{
		name:    "store-former-stream-loaded-again",
		promise: "a deleted stream does not come back from the archive",
		file:    "store/table.go",
		old:     `if s.cur == nil && s.pub == nil && s.ended == 0 && !s.dead {`,
		new:     `if s.cur == nil && s.pub == nil && !s.dead {`,
		caught:  histories,
	},
	{
		name:    "store-tails-of-the-dead-counted",
		promise: "memory of deleted streams is given back",
		file:    "store/commit.go",
		old:     "\te.flush.tails.Add(-l.tail.size())\n",
		new:     "",
		caught:  in("TestNothingStaysCounted", "./store"),
	},
	{
		name:    "store-failure-not-reported",
		promise: "a failed sync stops the process",
		file:    "store/store.go",
		old:     "\t\te.opts.OnFatal(err)\n",
		new:     "",
		caught:  in("TestJournalFailure", "./store"),
	},
	{
		name:    "store-read-error-swallowed",
		promise: "a read that cannot be completed is no shorter read",
		file:    "store/read.go",
		old:     "\tif err != nil {\n\t\treturn nil, damaged(err)\n\t}\n\treturn data[:min(",
		new:     "\tif err != nil {\n\t\treturn nil, io.EOF\n\t}\n\treturn data[:min(",
		caught:  in("TestArchiveReadFailure|TestArchiveReadFailsMidway|TestFlippedByteInArchive", "./store"),
	},
	{
		name:    "store-no-deletion-on-a-full-disk",
		promise: "a full disk takes deletions",
		file:    "store/store.go",
		old:     `case !frees && e.space.full():`,
		new:     `case e.space.full():`,
		caught:  in("TestDiskFull", "./store"),
	},
	{
		name:    "store-restore-not-marked",
		promise: "a directory that was only half restored is not opened",
		file:    "store/store.go",
		old:     `if err := Restoring(e.fs, e.dir); err != nil {`,
		new:     `if err := error(nil); err != nil {`,
		caught:  in("TestPowerCutDuringRestore|TestCutTar", "./internal/backup"),
	},
	{
		name:    "backup-content-not-compared",
		promise: "what is restored is what was backed up",
		file:    "internal/backup/restore.go",
		old:     `if sum != f.SHA256 || n != f.Size {`,
		new:     `if sum != f.SHA256 && n != f.Size {`,
		caught:  in("TestDamage", "./internal/backup"),
	},
	{
		name:    "backup-names-believed",
		promise: "what a client has is known by its content",
		file:    "internal/backup/send.go",
		old:     `if f.SHA256 == "" || !there[File{Name: f.Name, Size: f.Size, SHA256: f.SHA256}] {`,
		new:     `if f.SHA256 == "" || !named[f.Name] {`,
		caught:  in("TestTwoLives", "./internal/backup"),
	},
	{
		name:    "backup-manifest-before-its-files",
		promise: "a backup that is listed has all its files after a power cut",
		file:    "internal/backup/destination.go",
		old: `	if err := syncDir(d.fs, d.path(filesDir)); err != nil {
		return nil, fmt.Errorf("keep files: %w", err)
	}
`,
		new:    ``,
		caught: in("TestPowerCutDuringBackup", "./internal/backup"),
	},
}
