//go:build !linux

package bench

// threadUsage is the CPU time of the process so far: what a single thread used is not
// told on all systems.
func threadUsage() usage { return processUsage() }
