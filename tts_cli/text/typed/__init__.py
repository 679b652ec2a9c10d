"""Prepare texts for a voice that learnt typed texts alone: no printed marks, emoji, capitals."""
