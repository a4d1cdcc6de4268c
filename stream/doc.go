// Package stream says what a durable stream is: its path, offsets, lifetime,
// producers and forks, and the one pure transition function that decides every
// change of its state.
//
// A change goes through two steps. Decide turns (state, command, now) into a
// [Record] and a [Result], or refuses with an [*Error]; it changes nothing.
// [State.Fold] applies a record to a state; it cannot refuse. A live engine
// decides and folds, recovery only folds the records it finds in its journal,
// and the model in the tests does the same. There is no I/O, no clock and no
// lock here, and no rule about a stream's state stands anywhere else.
//
// Values are not safe for concurrent use; the engine holds a stream's lock
// while it decides and folds.
package stream
