package config

import "strings"

// nearest gives the known name that somebody may have meant, "" if none is like it.
func nearest(name string, known map[string]Kind) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	best, least := "", max(2, len(name)/3)+1
	for candidate := range known {
		d := distance(name, candidate)
		if d < least || d == least && candidate < best {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the letters to insert, delete and replace between two names
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
