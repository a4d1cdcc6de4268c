package process

// Leaks gives what was found so far, and forgets it.
func Leaks() []string {
	leaks.Lock()
	defer leaks.Unlock()
	found := leaks.found
	leaks.found = nil
	return found
}
