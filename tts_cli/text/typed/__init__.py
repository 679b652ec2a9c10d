"""What a voice is given that learnt typed texts alone: no printed marks, pictures or capitals."""
