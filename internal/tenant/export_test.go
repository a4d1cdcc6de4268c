package tenant

// Accounts is the number of accounts that are kept.
func (l *Ledger) Accounts() (n int) {
	for i := range l.shards {
		s := &l.shards[i]
		s.Lock()
		n += len(s.accounts)
		s.Unlock()
	}
	return n
}
