//! The lab: loads, initiators, profiles and reports that tell the truth.
