// Package mutants tests the tests: it holds small changes of the code, each of
// which breaks one promise of the server, and requires that the test suites catch
// every one. All of it is test code, nothing here is part of a program. See
// docs/testing.md for how to run it and what to do about a survivor.
package mutants
