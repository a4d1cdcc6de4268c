package store

// FlushInSteps flushes what is dirty, but stops before the archive takes it and
// before memory lets go of it, so that tests can act in between. The engine's
// own flusher must have no reason to run.
func (e *Engine) FlushInSteps(beforeApply, beforeSettle func()) error {
	var group []flushing
	for _, l := range e.flush.take() {
		group = append(group, e.snapshotForFlush(l))
	}
	w := e.archive.NewBatch()
	for i := range group {
		e.put(w, &group[i])
	}
	beforeApply()
	if err := w.Apply(); err != nil {
		return err
	}
	beforeSettle()
	for i := range group {
		e.settle(&group[i])
	}
	return nil
}
