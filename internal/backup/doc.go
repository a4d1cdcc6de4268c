// Package backup moves pictures of data directories to a place that keeps them, and back.
//
// What goes over the wire is a tar: the files that the other side does not have, and last
// manifest.json, which names all files with their checksums. A tar without it is no backup.
//
//	Set          the files of one picture, and the keys beside it
//	Sums.Send    writes a set as a tar
//	Destination  a directory that keeps backups; what they share it keeps once
//	Restore      makes a data directory of one of them
//
// It knows nothing of listeners, nor of what the files mean. A Destination belongs to one
// goroutine; Sums may be used by many.
package backup
