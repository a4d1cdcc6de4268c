package stream

import "strings"

// Producer is the triple that an idempotent producer sends (§5.2.1).
type Producer struct {
	ID    string
	Epoch uint64
	Seq   uint64
}

// Limits of a producer triple and of what a stream remembers.
const (
	MaxProducerIDLen = 256       // bytes
	MaxProducerInt   = 1<<53 - 1 // largest epoch and seq
	MaxProducers     = 10_000    // producers a stream remembers at once
	MaxStreamSeqLen  = 1024      // bytes of a Stream-Seq value
)

// producerState is what a stream remembers of one producer. A stream that
// knows MaxProducers of them forgets the one that has been idle the longest
// when another appears; a forgotten producer counts as new.
type producerState struct {
	Producer
	lastUse int64 // Unix nanoseconds of the last accepted append
}

// findProducer gives the index of id in the sorted list, or where it belongs.
func findProducer(list []producerState, id string) (index int, found bool) {
	lo, hi := 0, len(list)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if strings.Compare(list[mid].ID, id) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(list) && list[lo].ID == id
}

// verdict is what a producer's triple means for an append.
type verdict uint8

const (
	accept verdict = iota
	duplicate
)

// judge applies the validation logic of §5.2.1. highest is the highest accepted
// seq of the producer's epoch once the append is done.
func judge(list []producerState, p Producer) (v verdict, highest uint64, err *Error) {
	seen := &ProducerSeen{Epoch: p.Epoch, Seq: p.Seq}
	i, known := findProducer(list, p.ID)
	if !known {
		if p.Seq != 0 {
			return 0, 0, &Error{Kind: ProducerGap, Message: "an unknown producer starts at sequence 0",
				Expected: 0, Received: p.Seq, Producer: seen}
		}
		return accept, 0, nil
	}
	last := list[i]
	switch {
	case p.Epoch < last.Epoch:
		return 0, 0, &Error{Kind: ProducerFenced, Message: "a newer epoch of this producer has taken over",
			Epoch: last.Epoch, Producer: seen}
	case p.Epoch > last.Epoch && p.Seq != 0:
		return 0, 0, &Error{Kind: ProducerEpochStart, Message: "a new epoch starts at sequence 0", Producer: seen}
	case p.Epoch > last.Epoch:
		return accept, 0, nil
	case p.Seq <= last.Seq:
		return duplicate, last.Seq, nil
	case p.Seq > last.Seq+1:
		return 0, 0, &Error{Kind: ProducerGap, Message: "sequence numbers are missing before this one",
			Expected: last.Seq + 1, Received: p.Seq, Producer: seen}
	}
	return accept, p.Seq, nil
}

// remember folds an accepted triple into the list.
func remember(list []producerState, p Producer, now int64) []producerState {
	i, known := findProducer(list, p.ID)
	if known {
		list[i].Epoch, list[i].Seq, list[i].lastUse = p.Epoch, p.Seq, now
		return list
	}
	if len(list) >= MaxProducers {
		oldest := 0
		for j := range list {
			if list[j].lastUse < list[oldest].lastUse {
				oldest = j
			}
		}
		list = append(list[:oldest], list[oldest+1:]...)
		i, _ = findProducer(list, p.ID)
	}
	list = append(list, producerState{})
	copy(list[i+1:], list[i:])
	p.ID = strings.Clone(p.ID)
	list[i] = producerState{Producer: p, lastUse: now}
	return list
}
